//! The segment, written and read; and what its decoder does with bytes that nobody wrote.

use super::*;
use crate::key::Shape;
use bytes::Bytes;
use flott_checkpoint::CheckpointId;
use proptest::prelude::*;
use std::ops::Range;

fn name(state: &str) -> Arc<StateName> {
    Arc::new(StateName::new("operator", state))
}

fn header(state: &str, base: Option<u64>, owned: Range<u16>) -> StateHeader {
    let (key_shape, value_shape) = (Shape::Leaf("u64"), Shape::Unknown);
    let declaration = Declaration { name: name(state), kind: StateKind::Value, key_shape, value_shape };
    StateHeader { declaration, base: base.map(CheckpointId), owned }
}

fn block(state: &str, kind: BlockKind, entries: &[(u16, &[u8])]) -> EncodedBlock {
    let mut builder = BlockBuilder::new(kind);
    for (group, bytes) in entries {
        assert!(push(&mut builder, *group, bytes).is_none());
    }
    Compressor::default().encode(&name(state), builder.close().expect("not empty"))
}

fn push(builder: &mut BlockBuilder, group: u16, bytes: &[u8]) -> Option<block::RawBlock> {
    let entry = |out: &mut Vec<u8>| {
        out.extend_from_slice(bytes);
        Ok::<_, std::convert::Infallible>(())
    };
    builder.entry(group, entry).expect("infallible")
}

/// Two states, one of them without blocks, and two blobs, written in a mixed order.
fn sample() -> Vec<u8> {
    let (mut assembler, start) = SegmentAssembler::begin();
    let mut file = start.to_vec();
    file.extend(assembler.block(block("sum", BlockKind::Puts, &[(3, b"abc"), (3, b"def"), (5, b"x")])));
    assembler.blob("sink", "tokens", 1, b"first ").iter().for_each(|bytes| file.extend(bytes));
    file.extend(assembler.block(block("sum", BlockKind::Deletes, &[(4, b"gone")])));
    assembler.blob("sink", "tokens", 1, b"second").iter().for_each(|bytes| file.extend(bytes));
    assembler.blob("sink", "tokens", 0, &[7; 3_000_000]).iter().for_each(|bytes| file.extend(bytes));
    file.extend(assembler.block(block("sum", BlockKind::Puts, &[(9, &[1; 5000])])));
    assembler.declare(header("sum", Some(6), 0..10));
    assembler.declare(header("idle", None, 0..10));
    let (end, summary) = assembler.finish().expect("all are declared");
    file.extend(end);
    assert_eq!(summary.length, file.len() as u64);
    assert_eq!(summary.checksum, xxhash_rust::xxh3::xxh3_64(&file));
    file
}

fn stored(file: &[u8], piece: &Piece) -> Bytes {
    let range = piece.range();
    Bytes::copy_from_slice(&file[range.start as usize..range.end as usize])
}

fn runs(file: &[u8], entry: &BlockEntry) -> Result<Vec<(u16, Vec<u8>)>, SegmentError> {
    let block = entry.decode(stored(file, &entry.piece))?;
    block.runs().map(|run| run.map(|(group, bytes)| (group.0, bytes.to_vec()))).collect()
}

#[test]
fn what_was_written_is_read_back() {
    let file = sample();
    let footer = Footer::of(&file).expect("whole");
    let sum = footer.state("operator", "sum").expect("declared");
    assert_eq!((sum.base, sum.owned.clone()), (Some(CheckpointId(6)), 0..10));
    assert_eq!(sum.declaration, header("sum", None, 0..10).declaration);
    let read: Vec<_> = sum.blocks.iter().map(|block| runs(&file, block).expect("undamaged")).collect();
    assert_eq!(read[0], [(4, b"gone".to_vec())], "deletes come first");
    assert_eq!(read[1], [(3, b"abcdef".to_vec()), (5, b"x".to_vec())]);
    assert_eq!(read[2], [(9, vec![1; 5000])]);
    assert_eq!(sum.blocks.iter().map(|block| block.entries).collect::<Vec<_>>(), [1, 3, 1]);
    let idle = footer.state("operator", "idle").expect("declared");
    assert_eq!((idle.base, idle.blocks.len()), (None, 0));
    let tokens = |subtask| {
        let blob = footer.blob("sink", "tokens", subtask).expect("written");
        blob.pieces.iter().flat_map(|piece| piece.decode(stored(&file, piece)).expect("undamaged")).collect::<Vec<u8>>()
    };
    assert_eq!(tokens(1), b"first second");
    assert_eq!(tokens(0), vec![7; 3_000_000]);
    assert!(footer.blob("sink", "tokens", 0).expect("written").pieces.len() == 3, "pieces are at most a block");
    assert!(footer.blob("sink", "tokens", 2).is_none());
}

#[test]
fn the_footer_is_found_from_the_end_alone() {
    let file = sample();
    let length = file.len() as u64;
    let range = footer_range(&file[file.len() - TRAILER_LENGTH..], length).expect("a trailer");
    assert_eq!(range.end, length);
    let tail = &file[range.start as usize..];
    assert_eq!(Footer::read(tail, length), Footer::of(&file));
    assert!(Footer::read(&tail[1..], length).is_err(), "one byte is missing");
}

#[test]
fn a_trailer_never_asks_for_more_than_the_longest_footer() {
    let (file, length) = (sample(), 1 << 40);
    let mut tail = file[file.len() - TRAILER_LENGTH..].to_vec();
    tail[..8].copy_from_slice(&MAX_FOOTER.to_le_bytes());
    let range = footer_range(&tail, length).expect("as long as a footer may be");
    assert_eq!(range.end - range.start, MAX_FOOTER + TRAILER_LENGTH as u64);
    for longer in [MAX_FOOTER + 1, length / 2, u64::MAX] {
        tail[..8].copy_from_slice(&longer.to_le_bytes());
        assert!(
            matches!(footer_range(&tail, length), Err(SegmentError::Malformed { part: "trailer", .. })),
            "{longer}"
        );
    }
}

#[test]
fn a_footer_that_no_restore_would_read_is_not_written() {
    let (mut assembler, _) = SegmentAssembler::begin();
    for n in 0..=MAX_FOOTER >> 20 {
        let _ = assembler.blob(&format!("{n}{}", "o".repeat(1 << 20)), "tokens", 0, b"x");
    }
    let error = assembler.finish().expect_err("the names alone are too long");
    assert!(
        matches!(error, SegmentError::TooManyBlocks { .. }) && error.to_string().contains("more workers"),
        "{error}"
    );
}

#[test]
fn only_ranges_of_the_wanted_key_groups_are_fetched() {
    let file = sample();
    let footer = Footer::of(&file).expect("whole");
    let blocks = |groups| footer.state("operator", "sum").expect("declared").blocks_of(groups).count();
    assert_eq!(
        [blocks(0..3), blocks(3..4), blocks(4..5), blocks(5..6), blocks(6..9), blocks(0..10)],
        [0, 1, 2, 1, 0, 3]
    );
}

#[test]
fn a_block_is_closed_at_its_size_and_never_above_the_limit() {
    let mut builder = BlockBuilder::new(BlockKind::Puts);
    let mut blocks = Vec::new();
    for index in 0..4000u32 {
        blocks.extend(push(&mut builder, (index % 7) as u16, &[index as u8; 50]));
    }
    assert!(blocks.len() >= 3);
    // A large entry behind a small one, then one that is alone too large.
    blocks.extend(push(&mut builder, 1, &[1; MAX_BLOCK - 20]));
    blocks.extend(push(&mut builder, 1, &[2; 2 * MAX_BLOCK]));
    blocks.extend(push(&mut builder, 2, b"end"));
    blocks.extend(builder.close());
    let mut lengths = Vec::new();
    let mut seen = 0;
    for raw in blocks {
        let encoded = Compressor::default().encode(&name("sum"), raw);
        lengths.push((encoded.raw_length as usize, encoded.entries));
        seen += encoded.entries;
    }
    assert_eq!(seen, 4003);
    assert!(lengths.iter().all(|(length, entries)| *length <= MAX_BLOCK || *entries == 1), "{lengths:?}");
}

#[test]
fn a_failed_entry_leaves_no_trace() {
    let mut with = BlockBuilder::new(BlockKind::Puts);
    let mut without = BlockBuilder::new(BlockKind::Puts);
    for group in [1u16, 1, 2, 2, 3] {
        assert!(push(&mut with, group, b"entry").is_none());
        assert!(push(&mut without, group, b"entry").is_none());
        let failed = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"half");
            Err("no")
        };
        assert_eq!(with.entry(group, failed).err(), Some("no"));
        assert_eq!(with.entry(group + 5, failed).err(), Some("no"));
    }
    let bytes = |builder: &mut BlockBuilder| Compressor::default().encode(&name("sum"), builder.close().unwrap());
    let (with, without) = (bytes(&mut with), bytes(&mut without));
    assert_eq!((with.bytes, with.entries, with.groups), (without.bytes, without.entries, without.groups));
}

#[test]
fn compression_stops_where_it_saves_little_and_tries_again_at_each_sixteenth_block() {
    let mut noise = 0u64;
    let mut incompressible = || {
        let byte = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (noise >> 56) as u8
        };
        std::iter::repeat_with(byte).take(10_000).collect::<Vec<u8>>()
    };
    let mut compressor = Compressor::default();
    assert_eq!(compressor.store(vec![0; 10_000]).0, Compression::Lz4);
    assert_eq!(compressor.store(incompressible()).0, Compression::Raw, "it got no smaller");
    for _ in 0..15 {
        assert_eq!(compressor.store(vec![0; 10_000]).0, Compression::Raw);
    }
    assert_eq!(compressor.store(vec![0; 10_000]).0, Compression::Lz4, "the sixteenth is tried");
    assert_eq!(compressor.store(vec![0; 10_000]).0, Compression::Lz4);
}

#[test]
fn blocks_of_an_undeclared_state_are_a_bug_that_is_named() {
    let (mut assembler, _) = SegmentAssembler::begin();
    let _ = assembler.block(block("sum", BlockKind::Puts, &[(0, b"x")]));
    assert_eq!(assembler.finish().err(), Some(SegmentError::Undeclared(StateName::new("operator", "sum"))));
}

#[test]
fn a_segment_of_a_newer_format_is_refused_by_its_number() {
    let mut file = sample();
    let version = file.len() - 12;
    file[version] = 2;
    assert_eq!(Footer::of(&file), Err(SegmentError::NewerVersion { found: 2 }));
    assert!(SegmentError::NewerVersion { found: 2 }.to_string().contains("use a newer build"));
}

#[test]
fn the_layout_is_the_documented_one() {
    let (mut assembler, start) = SegmentAssembler::begin();
    assert_eq!(*start, *b"FLOTTSEG\x01\0\0\0\0\0\0\0");
    let bytes = assembler.block(block("s", BlockKind::Puts, &[(2, b"kv")]));
    assert_eq!(*bytes, *b"\x02\0\x02\0\0\0kv");
    assembler.declare(header("s", Some(258), 1..3));
    let (end, _) = assembler.finish().expect("declared");
    let mut expected = Vec::new();
    expected.extend(b"\x01\0\0\0\x08\0\0\0operator\x01\0\0\0s\x01\x02\x01\0\0\0\0\0\0\x01\0\x03\0");
    expected.extend(b"\x03\0\0\0u64\x01\0\0\0?\x01\0\0\0");
    expected.extend(b"\x10\0\0\0\0\0\0\0\x08\0\0\0\x08\0\0\0\0");
    expected.extend(xxhash_rust::xxh3::xxh3_64(&bytes).to_le_bytes());
    expected.extend(b"\x01\x02\0\x03\0\x01\0\0\0\0\0\0\0");
    let (length, checksum) = (expected.len() as u64, xxhash_rust::xxh3::xxh3_64(&expected));
    expected.extend(length.to_le_bytes());
    expected.extend(checksum.to_le_bytes());
    expected.extend(b"\x01\0\0\0flottseg");
    assert_eq!(*end, *expected);
}

// PLANS

/// A checkpoint with one worker: its base, groups, and the groups of its puts.
fn link(sections: &[(Option<u64>, Range<u16>)]) -> Vec<Footer> {
    let segment = |(base, owned): &(Option<u64>, Range<u16>)| {
        let (mut assembler, start) = SegmentAssembler::begin();
        let mut file = start.to_vec();
        file.extend(assembler.block(block("sum", BlockKind::Puts, &[(owned.start, b"a"), (owned.end - 1, b"b")])));
        file.extend(assembler.block(block("sum", BlockKind::Deletes, &[(owned.start, b"a")])));
        assembler.declare(header("sum", *base, owned.clone()));
        file.extend(assembler.finish().expect("declared").0);
        Footer::of(&file).expect("whole")
    };
    sections.iter().map(segment).collect()
}

fn plan(chain: &[Vec<Footer>], wanted: Range<u16>) -> Vec<(usize, usize, BlockKind, Range<u16>)> {
    let plan = restore_plan(chain, &name("sum"), wanted).expect("a full section below");
    plan.into_iter().map(|apply| (apply.link, apply.segment, apply.block.kind, apply.groups)).collect()
}

#[test]
fn a_chain_is_applied_from_its_newest_full_section_on() {
    use BlockKind::{Deletes, Puts};
    let chain = [link(&[(None, 0..8)]), link(&[(None, 0..8)]), link(&[(Some(2), 0..8)])];
    let expected = [(1, 0, Deletes, 0..5), (1, 0, Puts, 0..5), (2, 0, Deletes, 0..5), (2, 0, Puts, 0..5)];
    assert_eq!(plan(&chain, 0..5), expected);
}

#[test]
fn one_workers_full_section_hides_older_ones_of_its_groups_only() {
    use BlockKind::{Deletes, Puts};
    let chain = [link(&[(None, 0..8)]), link(&[(Some(1), 0..4), (None, 4..8)])];
    let expected = [
        (0, 0, Deletes, 0..4),
        (0, 0, Puts, 0..4),
        (1, 0, Deletes, 0..4),
        (1, 0, Puts, 0..4),
        (1, 1, Deletes, 4..8),
        (1, 1, Puts, 4..8),
    ];
    assert_eq!(plan(&chain, 0..8), expected);
    let last = link(&[(None, 0..8)]);
    assert_eq!(plan(&[last], 7..8), [(0, 0, Puts, 7..8)], "a block of other groups only is not read");
}

#[test]
fn a_chain_without_a_full_section_is_an_error_for_the_groups_it_concerns() {
    let chain = [link(&[(Some(9), 0..4), (None, 4..8)])];
    let missing = SegmentError::NoFullSection(StateName::new("operator", "sum"));
    assert_eq!(restore_plan(&chain, &name("sum"), 0..8), Err(missing));
    assert!(restore_plan(&chain, &name("sum"), 4..8).is_ok());
    assert_eq!(restore_plan(&chain, &name("new"), 0..8), Ok(Vec::new()), "a state without history starts empty");
}

// DAMAGE

/// Reads everything that a restore would.
fn read_all(file: &[u8]) -> Result<usize, SegmentError> {
    let footer = Footer::of(file)?;
    let mut entries = 0;
    for entry in footer.states.iter().flat_map(|state| &state.blocks) {
        entries += runs(file, entry)?.len();
    }
    for piece in footer.blobs.iter().flat_map(|blob| &blob.pieces) {
        entries += piece.decode(stored(file, piece))?.len();
    }
    Ok(entries)
}

fn small() -> Vec<u8> {
    let (mut assembler, start) = SegmentAssembler::begin();
    let mut file = start.to_vec();
    file.extend(assembler.block(block("sum", BlockKind::Puts, &[(3, &[5; 300]), (5, b"x")])));
    file.extend(assembler.block(block("sum", BlockKind::Deletes, &[(4, b"gone")])));
    assembler.blob("sink", "tokens", 1, b"blob").iter().for_each(|bytes| file.extend(bytes));
    assembler.declare(header("sum", Some(6), 0..10));
    file.extend(assembler.finish().expect("declared").0);
    file
}

#[test]
fn every_truncation_is_an_error() {
    let file = small();
    assert!(read_all(&file).is_ok());
    for length in 0..file.len() {
        assert!(read_all(&file[..length]).is_err(), "cut to {length} of {}", file.len());
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    let file = small();
    for bit in 0..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read_all(&damaged).is_err(), "bit {bit}");
    }
}

/// Puts a footer of any bytes under a valid checksum, so that the decoder behind the checksum is reached.
fn with_footer(content: &[u8], footer: &[u8]) -> Vec<u8> {
    let mut file = SegmentAssembler::begin().1.to_vec();
    file.extend_from_slice(content);
    file.extend_from_slice(footer);
    file.extend_from_slice(&(footer.len() as u64).to_le_bytes());
    file.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(footer).to_le_bytes());
    file.extend_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(&END_MAGIC);
    file
}

fn footer_of(file: &[u8]) -> Vec<u8> {
    let range = footer_range(file, file.len() as u64).expect("a trailer");
    file[range.start as usize..file.len() - TRAILER_LENGTH].to_vec()
}

#[test]
fn a_length_that_the_bytes_cannot_hold_is_refused_before_it_is_allocated() {
    let stored = Bytes::from_static(b"tiny");
    let checksum = xxhash_rust::xxh3::xxh3_64(&stored);
    let piece = Piece { offset: 16, length: 4, raw_length: u32::MAX, compression: Compression::Lz4, checksum };
    let reason = "no compression is that good";
    assert_eq!(piece.decode(stored), Err(SegmentError::malformed("piece of a blob", reason)));
    let counts = [&u32::MAX.to_le_bytes()[..], &[0; 60]].concat();
    assert!(Footer::of(&with_footer(&[], &counts)).unwrap_err().to_string().contains("more records"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_segment_or_an_error(bytes: Vec<u8>) {
        drop(read_all(&bytes));
        drop(footer_range(&bytes, bytes.len() as u64));
        drop(Footer::read(&bytes, u64::MAX));
    }

    #[test]
    fn any_footer_under_a_valid_checksum_decodes_or_is_an_error(bytes: Vec<u8>) {
        drop(read_all(&with_footer(&[], &bytes)));
    }

    #[test]
    fn a_damaged_footer_under_a_valid_checksum_never_panics(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let file = small();
        let mut footer = footer_of(&file);
        let content = file[16..file.len() - TRAILER_LENGTH - footer.len()].to_vec();
        for (index, byte) in changes {
            let at = index.index(footer.len());
            footer[at] = byte;
        }
        drop(read_all(&with_footer(&content, &footer)));
        footer.truncate(cut.index(footer.len()));
        drop(read_all(&with_footer(&content, &footer)));
    }

    #[test]
    fn any_block_under_a_valid_checksum_unpacks_or_is_an_error(bytes: Vec<u8>, raw_length in 0..100_000u32, lz4: bool) {
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
        let compression = if lz4 { Compression::Lz4 } else { Compression::Raw };
        let length = bytes.len() as u32;
        let raw_length = if lz4 { raw_length } else { length };
        let piece = Piece { offset: 16, length, raw_length, compression, checksum };
        let entry = BlockEntry { piece, kind: BlockKind::Puts, groups: 0..1, entries: 1 };
        if let Ok(block) = entry.decode(bytes.into()) {
            prop_assert!(block.runs().count() <= block.raw.len() + 1);
        }
    }
}
