//! Whether the file is as long as its header says.
//!
//! SQLite refuses a file that lacks whole pages. Of a last page that lacks its end it takes the rest for zeros, so what
//! was there would be missed only by whoever has a checksum of it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::connection::beside;

/// What SQLite's header takes up.
const HEADER: usize = 100;

/// What is wrong with the length of a file, if anything. While there is a log, the log may have what the file has not.
pub(super) fn problem(path: &Path, file: &File) -> io::Result<Option<String>> {
    let mut header = Vec::with_capacity(HEADER);
    file.take(HEADER as u64).read_to_end(&mut header)?;
    // In this order: whoever moves a log into the file writes the header first, and ends the log last.
    if has_log(&path.canonicalize()?) {
        return Ok(None);
    }
    let (there, wanted) = (file.metadata()?.len(), header.as_slice().try_into().map_or(0, length));
    let told = || format!("the file is cut short, it has {there} of {wanted} bytes");
    Ok((there < wanted).then(told))
}

/// Logs are beside the file itself, whatever links lead to it.
fn has_log(path: &Path) -> bool {
    let holds_any = |suffix| fs::metadata(beside(path, suffix)).is_ok_and(|log| log.len() > 0);
    ["-wal", "-journal"].into_iter().any(holds_any)
}

/// The length a header tells, or 0 if it is not to be believed.
fn length(header: &[u8; HEADER]) -> u64 {
    let number = |at: usize| header[at..at + 4].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let page = match u64::from(header[16]) << 8 | u64::from(header[17]) {
        1 => 65536,
        size => size,
    };
    // Old programs do not write the number of pages, but change the first of these.
    let is_current = header.starts_with(b"SQLite format 3\0") && number(24) == number(92);
    if is_current { page * number(28) } else { 0 }
}
