//! Entries on their way from a file into a savepoint, in unnamed temporary files: one for each piece of the key space, so that
//! each is read when its key groups are written, and memory stays flat.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;

/// Into so many pieces the key space is divided.
const PIECES: u16 = 64;

/// An entry of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Row {
    /// Where it stands, from 1.
    pub(super) line: u64,
    pub(super) group: u16,
    pub(super) key: Vec<u8>,
    pub(super) field: Vec<u8>,
    /// Of an element; behind all others if it says none.
    pub(super) position: Option<u64>,
    /// Of a timer.
    pub(super) time: i64,
    pub(super) value: Vec<u8>,
}

/// In the place of a position that is not given.
const NONE: u64 = u64::MAX;

/// Rows, by key group.
pub(super) struct Spill {
    groups: u16,
    pieces: Vec<Option<BufWriter<File>>>,
}

impl Spill {
    pub(super) fn new(groups: u16) -> Spill {
        Spill { groups, pieces: (0..PIECES).map(|_| None).collect() }
    }

    fn piece_of(&self, group: u16) -> usize {
        usize::from(group) * usize::from(PIECES) / usize::from(self.groups.max(1))
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: &Row) -> io::Result<()> {
        let piece = self.piece_of(row.group);
        let Some(place) = self.pieces.get_mut(piece) else { return Err(io::ErrorKind::InvalidInput.into()) };
        if place.is_none() {
            *place = Some(BufWriter::new(tempfile::tempfile()?));
        }
        let Some(out) = place else { return Ok(()) };
        out.write_all(&row.line.to_le_bytes())?;
        out.write_all(&row.group.to_le_bytes())?;
        out.write_all(&row.position.unwrap_or(NONE).to_le_bytes())?;
        out.write_all(&row.time.to_le_bytes())?;
        for part in [&row.key, &row.field, &row.value] {
            let length = u32::try_from(part.len()).map_err(|_| io::Error::other("an entry is larger than 4 GiB"))?;
            out.write_all(&length.to_le_bytes())?;
            out.write_all(part)?;
        }
        Ok(())
    }

    /// Shows the rows of some key groups, in the order in which they came for each group.
    pub(super) fn each(&mut self, groups: &Range<u16>, look: &mut dyn FnMut(&Row)) -> io::Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        let pieces = self.piece_of(groups.start)..=self.piece_of(groups.end - 1);
        for piece in self.pieces.get_mut(pieces).into_iter().flatten().flatten() {
            piece.flush()?;
            let mut file = piece.get_ref();
            file.seek(SeekFrom::Start(0))?;
            let mut reader = BufReader::new(file);
            let mut row = Row::default();
            while read(&mut reader, &mut row)? {
                if groups.contains(&row.group) {
                    look(&row);
                }
            }
        }
        Ok(())
    }
}

/// False at the end.
fn read(reader: &mut impl Read, row: &mut Row) -> io::Result<bool> {
    let mut line = [0; 8];
    match reader.read_exact(&mut line) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        other => other?,
    }
    let mut group = [0; 2];
    reader.read_exact(&mut group)?;
    let (mut position, mut time) = ([0; 8], [0; 8]);
    reader.read_exact(&mut position)?;
    reader.read_exact(&mut time)?;
    (row.line, row.group) = (u64::from_le_bytes(line), u16::from_le_bytes(group));
    row.position = Some(u64::from_le_bytes(position)).filter(|position| *position != NONE);
    row.time = i64::from_le_bytes(time);
    for part in [&mut row.key, &mut row.field, &mut row.value] {
        let mut length = [0; 4];
        reader.read_exact(&mut length)?;
        part.resize(u32::from_le_bytes(length) as usize, 0);
        reader.read_exact(part)?;
    }
    Ok(true)
}
