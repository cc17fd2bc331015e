//! What the print sink writes, line by line, into a string instead of the terminal.

use super::*;
use crate::testing::connector_contexts::sink_context;
use crate::testing::memory_files::MemoryFiles;
use std::sync::Mutex;

fn printed<T: Record>(records: Vec<T>) -> String {
    let text = Arc::new(Mutex::new(String::new()));
    let ours = text.clone();
    let stdout = Arc::new(move |line: &str| ours.lock().unwrap().push_str(line));
    let cx = SinkContext { stdout, ..sink_context(Arc::new(MemoryFiles::new())) };
    let mut writer = Sink::<T>::open(&print(), &cx).unwrap();
    records.into_iter().for_each(|record| writer.write(record, Time(0)).unwrap());
    assert!(SinkWriter::<T>::seal(&mut writer, CheckpointId(1)).is_some(), "there is something to wait for");
    assert!(SinkWriter::<T>::seal(&mut writer, CheckpointId(2)).is_none(), "nothing new");
    let text = text.lock().unwrap();
    text.clone()
}

#[test]
fn a_text_is_printed_as_it_is_and_everything_else_as_json() {
    assert_eq!(printed(vec!["say \"hi\"".to_owned(), "é".to_owned()]), "say \"hi\"\né\n");
    assert_eq!(printed(vec![("word".to_owned(), 3)]), "[\"word\",3]\n");
    assert_eq!(printed(vec![1.5]), "1.5\n");
}

#[test]
fn what_json_cannot_say_is_an_error() {
    let cx = sink_context(Arc::new(MemoryFiles::new()));
    let mut writer = Sink::<std::collections::BTreeMap<(u8, u8), u8>>::open(&print(), &cx).unwrap();
    assert!(writer.write(std::collections::BTreeMap::from([((1, 2), 3)]), Time(0)).is_err());
}

/// An output with events beside the lines.
struct Events(Mutex<String>);

impl Stdout for Events {
    fn write(&self, lines: &str) {
        self.0.lock().unwrap().push_str(lines);
    }

    fn wants_objects(&self) -> bool {
        true
    }
}

#[test]
fn beside_events_each_record_is_an_object_with_the_name_of_its_sink() {
    let stdout = Arc::new(Events(Mutex::default()));
    let cx = SinkContext {
        stdout: stdout.clone(),
        operator: "the \"out\"".to_owned(),
        ..sink_context(Arc::new(MemoryFiles::new()))
    };
    let mut text = Sink::<String>::open(&print(), &cx).unwrap();
    text.write("say \"hi\"\n".to_owned(), Time(0)).unwrap();
    let mut pair = Sink::<(String, u8)>::open(&print(), &cx).unwrap();
    pair.write(("word".to_owned(), 3), Time(0)).unwrap();
    let lines = stdout.0.lock().unwrap().clone();
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = [serde_json::json!("say \"hi\"\n"), serde_json::json!(["word", 3])]
        .map(|record| serde_json::json!({"event": "record", "sink": "the \"out\"", "record": record}));
    assert_eq!(objects, expected);
}

/// An output that nobody reads.
struct Stuck;

impl Stdout for Stuck {
    fn ready(&self, _: &Waker) -> bool {
        false
    }

    fn write(&self, _: &str) {}

    fn flush(&self) -> Result<()> {
        Err(Error::failed("nobody reads"))
    }
}

#[test]
fn an_output_that_nobody_reads_holds_records_and_checkpoints_back() {
    let cx = SinkContext { stdout: Arc::new(Stuck), ..sink_context(Arc::new(MemoryFiles::new())) };
    let mut writer = Sink::<u8>::open(&print(), &cx).unwrap();
    assert!(!SinkWriter::<u8>::ready(&mut writer));
    let committer = Sink::<u8>::committer(&print(), &cx).unwrap();
    let mut sealed: Sealed = Box::new(());
    assert!(committer.prepare(&mut sealed).unwrap_err().to_string().contains("nobody reads"));
}
