//! The local socket of a running job: where it lies, who may use it, and that it goes with the job.
//!
//! It lies in a directory that is its user's alone, so whoever can connect is the user. What is said on it is not decided here,
//! and nothing here waits for a peer.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// One process may run several jobs of a name; more than this surely not.
const MOST_OF_A_NAME: u32 = 16;

const ENDING: &str = ".sock";

/// A socket that listens. It is removed when it is dropped, unless somebody has put something else in its place.
#[derive(Debug)]
pub struct LocalSocket {
    path: PathBuf,
    listener: UnixListener,
    /// Of the file, so that nobody else's is removed.
    identity: (u64, u64),
}

/// Where the sockets of this user lie: `flott` in `$XDG_RUNTIME_DIR`, or in the directory for temporary files.
#[must_use]
pub fn socket_directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty());
    runtime.map_or_else(std::env::temp_dir, PathBuf::from).join("flott")
}

impl LocalSocket {
    /// Listens at `<job>-<pid>.sock` in a directory, which is made if it is missing. What a dead process left at that name is
    /// removed; with a live socket there, a number is added to the name.
    ///
    /// # Errors
    /// If the directory is somebody else's, the path is too long for a socket, or as the system says.
    pub fn bind(directory: &Path, job: &str) -> io::Result<LocalSocket> {
        make_private(directory)?;
        let process = std::process::id();
        for number in 1..=MOST_OF_A_NAME {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            let path = directory.join(format!("{job}-{process}{number}{ENDING}"));
            if !is_free(&path)? {
                continue;
            }
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            let file = fs::symlink_metadata(&path)?;
            let socket = LocalSocket { path, listener, identity: (file.dev(), file.ino()) };
            if fs::metadata(directory)?.uid() != file.uid() {
                return Err(not_private(directory, "it belongs to somebody else"));
            }
            return Ok(socket);
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, format!("this process has {MOST_OF_A_NAME} of them for the job")))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What listens, not blocking.
    ///
    /// # Errors
    /// If there can be no more file descriptors.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }

    /// Removes it; for a process that ends without dropping anything.
    pub fn remove(&self) {
        let is_ours = |file: fs::Metadata| (file.dev(), file.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            // What cannot be removed is found dead by whoever tries it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The sockets in a directory on which somebody listens for this job.
///
/// # Errors
/// If the directory is there and cannot be listed.
pub fn live_sockets(directory: &Path, job: &str) -> io::Result<Vec<(PathBuf, UnixStream)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| is_of(name, job)) {
            paths.push(directory.join(name));
        }
    }
    paths.sort_unstable();
    // Nobody answers at what a dead process left.
    Ok(paths.into_iter().filter_map(|path| UnixStream::connect(&path).ok().map(|stream| (path, stream))).collect())
}

/// `<job>-<pid>.sock` or `<job>-<pid>-<number>.sock`. A job's own name may end with numbers too.
fn is_of(name: &str, job: &str) -> bool {
    let rest = name.strip_prefix(job).and_then(|rest| rest.strip_prefix('-'));
    let Some(numbers) = rest.and_then(|rest| rest.strip_suffix(ENDING)) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match numbers.split_once('-') {
        Some((process, number)) => is_number(process) && is_number(number) && number.len() < 3,
        None => is_number(numbers),
    }
}

/// Whether nothing is there, or was until now: what a dead process left is removed.
fn is_free(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map(|()| true),
            _ => Ok(false),
        },
    }
}

fn make_private(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let found = fs::symlink_metadata(directory)?;
    if !found.is_dir() {
        return Err(not_private(directory, "it is no directory"));
    }
    if found.mode() & 0o077 != 0 {
        let closed = fs::set_permissions(directory, Permissions::from_mode(0o700));
        return closed.map_err(|_| not_private(directory, "others may write to it, and it belongs to somebody else"));
    }
    Ok(())
}

fn not_private(directory: &Path, why: &str) -> io::Error {
    let message =
        format!("{} cannot hold sockets: {why}; set XDG_RUNTIME_DIR to a directory of yours", directory.display());
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}
