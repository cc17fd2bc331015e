//! Sockets in directories of every kind.

use super::*;

fn place() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").mode() & 0o777
}

#[test]
fn a_socket_and_its_directory_are_the_users_alone_and_it_goes_with_the_job() {
    let place = place();
    let directory = place.path().join("flott");
    let socket = LocalSocket::bind(&directory, "counts").expect("bound");
    assert_eq!((mode(&directory), mode(socket.path())), (0o700, 0o600));
    assert_eq!(socket.path(), directory.join(format!("counts-{}.sock", std::process::id())));
    assert_eq!(live_sockets(&directory, "counts").expect("listed").len(), 1);
    let path = socket.path().to_owned();
    drop(socket);
    assert!(!path.exists());
}

#[test]
fn a_directory_that_others_can_enter_is_closed_first() {
    let place = place();
    let directory = place.path().join("flott");
    fs::create_dir(&directory).expect("made");
    fs::set_permissions(&directory, Permissions::from_mode(0o777)).expect("opened");
    let _socket = LocalSocket::bind(&directory, "counts").expect("bound");
    assert_eq!(mode(&directory), 0o700);
}

#[test]
fn what_a_dead_process_left_is_replaced_and_finds_nobody() {
    let place = place();
    let stale = place.path().join(format!("counts-{}.sock", std::process::id()));
    // A listener of the standard library leaves its file behind.
    drop(UnixListener::bind(&stale).expect("bound"));
    assert!(stale.exists());
    assert!(live_sockets(place.path(), "counts").expect("listed").is_empty());
    let socket = LocalSocket::bind(place.path(), "counts").expect("bound");
    assert_eq!(socket.path(), stale);
    assert_eq!(live_sockets(place.path(), "counts").expect("listed").len(), 1);
}

#[test]
fn two_jobs_of_one_name_in_one_process_have_a_socket_each() {
    let place = place();
    let first = LocalSocket::bind(place.path(), "counts").expect("bound");
    let second = LocalSocket::bind(place.path(), "counts").expect("bound");
    assert_ne!(first.path(), second.path());
    assert_eq!(live_sockets(place.path(), "counts").expect("listed").len(), 2);
    assert!(live_sockets(place.path(), "count").expect("listed").is_empty(), "another name is another job");
    assert!(live_sockets(&place.path().join("none"), "counts").expect("nothing is there").is_empty());
}

#[test]
fn a_path_that_is_too_long_or_no_directory_is_an_error_that_says_so() {
    let place = place();
    let long = place.path().join("d".repeat(120));
    assert_eq!(LocalSocket::bind(&long, "counts").expect_err("too long").kind(), io::ErrorKind::InvalidInput);
    let file = place.path().join("file");
    fs::write(&file, "").expect("written");
    assert!(LocalSocket::bind(&file, "counts").expect_err("a file").to_string().contains("it is no directory"));
    let missing = place.path().join("none/flott");
    assert_eq!(LocalSocket::bind(&missing, "counts").expect_err("no parent").kind(), io::ErrorKind::NotFound);
}

#[test]
fn nothing_is_removed_that_somebody_else_put_there() {
    let place = place();
    let socket = LocalSocket::bind(place.path(), "counts").expect("bound");
    let path = socket.path().to_owned();
    fs::remove_file(&path).expect("removed");
    fs::write(&path, "somebody else's").expect("written");
    drop(socket);
    assert!(path.exists());
}
