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
    records.into_iter().for_each(|record| writer.write(record).unwrap());
    assert!(SinkWriter::<T>::seal(&mut writer, CheckpointId(1)).is_none());
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
    let mut writer = PrintWriter { stdout: Arc::new(|_| ()) };
    assert!(writer.write(std::collections::BTreeMap::from([((1, 2), 3)])).is_err());
}
