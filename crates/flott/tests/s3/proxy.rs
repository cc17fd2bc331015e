//! Stands between a client and an S3 server, and does to requests what networks and busy stores do: late, lost, half, refused.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is answered with this status and code, and the server never sees it.
    Answer(u16, &'static str),
    /// It is served, and the connection is closed without an answer.
    Lost,
    /// It is served, and the answer is a 500.
    LostBehindError,
    /// Half of it is read, and the connection is closed.
    HalfRequest,
    /// It is served, and half of the answer is sent.
    HalfAnswer,
    /// Nothing, until the client gives up.
    Hang,
    /// It is served, and then nothing, until the client gives up.
    Vanished,
    /// It is served after a while.
    Late(Duration),
}

/// A request, as far as rules look at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// With the query.
    pub(crate) target: String,
}

/// Which requests, by their number (from 1) and what they are.
type Rule = Box<dyn FnMut(usize, &Seen) -> Option<Fault> + Send>;

struct State {
    server: String,
    rule: Mutex<Rule>,
    seen: Mutex<Vec<Seen>>,
    over: AtomicBool,
}

/// See the head of this file.
pub(crate) struct Proxy {
    port: u16,
    state: Arc<State>,
}

impl Proxy {
    /// Listens in front of a server; `rule` says what happens to which request.
    pub(crate) fn new(server: &str, rule: impl FnMut(usize, &Seen) -> Option<Fault> + Send + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let state = Arc::new(State {
            server: server.to_owned(),
            rule: Mutex::new(Box::new(rule)),
            seen: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.over.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&shared);
                // What fails here, fails the client.
                std::thread::spawn(move || serve(client, &shared));
            }
        });
        Proxy { port, state }
    }

    /// The same faults, each for the first request that fits to it.
    pub(crate) fn with_faults(server: &str, faults: Vec<(&'static str, &'static str, Fault)>) -> Proxy {
        let mut left = faults;
        Proxy::new(server, move |_, seen| {
            let fits = |(method, part, _): &(&str, &str, Fault)| seen.method == *method && seen.target.contains(part);
            let at = left.iter().position(fits)?;
            Some(left.remove(at).2)
        })
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// All requests so far that have these in them.
    pub(crate) fn seen(&self, method: &str, part: &str) -> usize {
        let seen = self.state.seen.lock().expect("sound");
        seen.iter().filter(|seen| seen.method == method && seen.target.contains(part)).count()
    }

    /// All requests so far.
    pub(crate) fn all(&self) -> Vec<Seen> {
        self.state.seen.lock().expect("sound").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address());
    }
}

struct Request {
    head: String,
    body: Vec<u8>,
    left: usize,
}

fn serve(mut client: TcpStream, state: &State) -> std::io::Result<()> {
    let mut request = read_head(&mut client)?;
    let mut words = request.head.split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    let seen = Seen { method: word(), target: word() };
    let number = {
        let mut all = state.seen.lock().expect("sound");
        all.push(seen.clone());
        all.len()
    };
    let fault = (state.rule.lock().expect("sound"))(number, &seen);
    if let Some(Fault::HalfRequest) = fault {
        let half = request.left / 2;
        read_body(&mut client, &mut request, half)?;
        return client.shutdown(Shutdown::Both);
    }
    let whole = request.left;
    read_body(&mut client, &mut request, whole)?;
    match fault {
        None => client.write_all(&forward(&request, &state.server)?),
        Some(Fault::Late(time)) => {
            std::thread::sleep(time);
            client.write_all(&forward(&request, &state.server)?)
        }
        Some(Fault::Answer(status, code)) => client.write_all(answer(status, code, &seen.method).as_bytes()),
        Some(Fault::Lost) => forward(&request, &state.server).map(|_| ()),
        Some(Fault::LostBehindError) => {
            forward(&request, &state.server)?;
            client.write_all(answer(500, "InternalError", &seen.method).as_bytes())
        }
        Some(Fault::HalfAnswer) => {
            let whole = forward(&request, &state.server)?;
            client.write_all(whole.get(..whole.len() / 2).unwrap_or_default())
        }
        Some(Fault::Vanished) => {
            forward(&request, &state.server)?;
            until_it_gives_up(&mut client)
        }
        Some(Fault::Hang) => until_it_gives_up(&mut client),
        Some(Fault::HalfRequest) => Ok(()),
    }
}

fn answer(status: u16, code: &str, method: &str) -> String {
    let body =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>As the test wants it.</Message></Error>");
    let body = if method == "HEAD" { String::new() } else { body };
    let head =
        format!("HTTP/1.1 {status} Fault\r\nETag: \"none\"\r\nContent-Type: application/xml\r\nConnection: close\r\n");
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn until_it_gives_up(client: &mut TcpStream) -> std::io::Result<()> {
    let mut byte = [0];
    while client.read(&mut byte)? > 0 {}
    Ok(())
}

fn read_head(client: &mut TcpStream) -> std::io::Result<Request> {
    let mut bytes = Vec::new();
    let mut piece = [0; 64 << 10];
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(bytes.get(..at).unwrap_or_default()).into_owned();
            let body = bytes.split_off(at + 4);
            let lengths = head.lines().filter_map(|line| line.split_once(':'));
            let length = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            let length: usize = length.filter_map(|(_, value)| value.trim().parse().ok()).next().unwrap_or(0);
            let left = length - body.len();
            return Ok(Request { head, body, left });
        }
        let read = client.read(&mut piece)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(piece.get(..read).unwrap_or_default());
    }
}

fn read_body(client: &mut TcpStream, request: &mut Request, bytes: usize) -> std::io::Result<()> {
    let before = request.body.len();
    client.take(bytes as u64).read_to_end(&mut request.body)?;
    if request.body.len() - before < bytes {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    request.left -= bytes;
    Ok(())
}

/// Gives the request to the server, and the whole answer back. The connection is for this one request.
fn forward(request: &Request, server: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server)?;
    let kept = request.head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let head: Vec<&str> = kept.collect();
    stream.write_all(format!("{}\r\nConnection: close\r\n\r\n", head.join("\r\n")).as_bytes())?;
    stream.write_all(&request.body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}
