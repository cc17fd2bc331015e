//! A format that holds records back and ends its parts with a footer.

use super::super::super::file_format::Rest;
use super::*;

/// Lines, in blocks of three; behind them how many there are, without which a part is not whole.
struct FootedFormat;

#[derive(Default)]
struct FootedEncoder {
    held: Vec<String>,
    lines: usize,
}

struct Footer(FootedEncoder);

impl Format<String> for FootedFormat {
    type Encoder = FootedEncoder;
    const EXTENSION: &'static str = "footed";

    fn encoder(&self) -> Result<FootedEncoder> {
        Ok(FootedEncoder::default())
    }
}

impl FootedEncoder {
    fn give_out(&mut self, out: &mut Vec<u8>) {
        self.lines += self.held.len();
        self.held.drain(..).for_each(|line| out.extend_from_slice(format!("{line}\n").as_bytes()));
    }
}

impl Encoder<String> for FootedEncoder {
    fn begin(&mut self, _: &mut Vec<u8>) -> Result<()> {
        assert!(self.held.is_empty() && self.lines == 0, "the part before was ended");
        Ok(())
    }

    fn encode(&mut self, record: &String, out: &mut Vec<u8>) -> Result<()> {
        self.held.push(record.clone());
        if self.held.len() == 3 {
            self.give_out(out);
        }
        Ok(())
    }

    fn held(&self) -> u64 {
        self.held.iter().map(|line| line.len() as u64 + 1).sum()
    }

    fn take_rest(&mut self) -> Option<Box<dyn Rest>> {
        Some(Box::new(Footer(std::mem::take(self))))
    }
}

impl Rest for Footer {
    fn write(mut self: Box<Self>, out: &mut Vec<u8>) -> Result<()> {
        if self.0.held.iter().any(|line| line == "poison") {
            return Err(Error::invalid("a record cannot be written"));
        }
        self.0.give_out(out);
        out.extend_from_slice(format!("= {}\n", self.0.lines).as_bytes());
        Ok(())
    }
}

/// The records of a whole part.
fn body(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    let footer = lines.pop().expect("a part has a footer");
    assert_eq!(footer, format!("= {}", lines.len()), "a committed part is whole: {text}");
    lines
}

struct Footed;

impl SinkCase for Footed {
    type Record = String;
    type Sink = FileSink<FootedFormat>;

    fn new() -> Self {
        Footed
    }
    fn sink(&self) -> Self::Sink {
        FileSink::with_format("out", FootedFormat)
    }
    fn record(&self, subtask: u16, n: u64) -> String {
        format!("{subtask} {n}")
    }
    fn visible(&self, files: &MemoryFiles) -> Visible {
        read_bodies(files, body)
    }
}

#[test]
fn parts_that_end_with_a_footer_are_committed_exactly_once_whatever_fails() {
    check_sink::<Footed>();
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn what_is_held_back_counts_for_the_size_of_a_part() {
    let sink = FileSink::with_format("out", FootedFormat).max_part_size(4);
    assert_eq!(written(&sink, lines(&["a", "b", "c"])), ["a\nb\n= 2\n", "c\n= 1\n"]);
}

#[test]
fn a_part_whose_end_cannot_be_encoded_is_never_taken_for_a_whole_one() {
    let files = MemoryFiles::new();
    let sink = FileSink::with_format("out", FootedFormat);
    let cx = sink_context(Arc::new(files.clone()));
    let mut writer = Sink::<String>::open(&sink, &cx).unwrap();
    lines(&["a", "b", "c", "poison"]).into_iter().for_each(|line| writer.write(line, Time(0)).unwrap());
    let mut sealed = SinkWriter::<String>::seal(&mut writer, CheckpointId(7)).unwrap();
    let committer = Sink::<String>::committer(&sink, &cx).unwrap();
    for _ in 0..2 {
        let error = committer.prepare(&mut sealed).unwrap_err();
        assert!(error.to_string().contains("cannot be written"), "{error}");
    }
}
