//! The last line of a terminal, written over again and again. By hand: a library for progress bars, and what it needs, cost a
//! build 3.5 CPU-s more. Never where lines stay.

use std::io::{IsTerminal, Write};

#[cfg(test)]
mod tests;

/// See the head of this file.
#[derive(Default)]
pub(super) struct StatusLine {
    text: String,
}

/// Back to the start of the line, and what stood there is gone.
const CLEAR: &str = "\r\x1b[2K";

impl StatusLine {
    /// On stderr, if that is a terminal that can write over a line.
    pub(super) fn on_stderr() -> Option<StatusLine> {
        let can = cfg!(unix) && std::env::var_os("TERM").is_some_and(|terminal| terminal != "dumb");
        (can && std::io::stderr().is_terminal()).then(StatusLine::default)
    }

    /// Shows another text.
    pub(super) fn show(&mut self, text: String) {
        self.text = text;
        write(&self.drawn());
    }

    /// Writes a line that stays, above this one.
    pub(super) fn log(&self, line: &str) {
        write(&self.below(line));
    }

    /// The line is for others now.
    pub(super) fn clear(self) {
        write(CLEAR);
    }

    /// One that is too long is cut at the edge, for of one that wraps only the last row would be written over.
    fn drawn(&self) -> String {
        format!("{CLEAR}\x1b[?7l{}\x1b[?7h", self.text)
    }

    fn below(&self, line: &str) -> String {
        format!("{CLEAR}{line}\n{}", self.drawn())
    }
}

/// In one piece, so that nobody else's output gets between.
fn write(text: &str) {
    // If stderr is gone, nothing can be said about it.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
