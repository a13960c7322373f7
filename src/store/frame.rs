//! One zstd frame: made, undone, and found in a file.
//!
//! Every frame of ours carries its content size and a checksum and depends on no other frame, so any run of
//! frames can be copied elsewhere byte by byte. Finding frames never decompresses: it hops from block
//! header to block header. Layout facts are from RFC 8878 §3.1. Nothing here knows what is inside.

use super::error::DamageKind;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use zstd::zstd_safe::{self, CParameter};

/// Largest content of one frame, bytes. Ours are cut at 256 KiB; a head is one frame and has the names of some
/// 400,000 threads within this. A frame that claims more is refused before memory is set aside for it.
pub const MAX_RAW: usize = 64 << 20;
/// Most frames of one file: a month of segments joined.
pub const MAX_FRAMES: usize = 1 << 22;
/// Largest content of one block (RFC 8878 §3.1.1.2.4).
const MAX_BLOCK: u32 = 128 << 10;
const MAGIC: u32 = 0xFD2F_B528;
/// The low four bits of a skippable frame's magic are free (RFC 8878 §3.1.2).
const SKIPPABLE: u32 = 0x184D_2A50;
/// The recorder's default level.
pub const USUAL_LEVEL: i32 = 2;
/// Longest frame header (magic, descriptor, window, dictionary id, content size).
const MAX_HEADER: usize = 18;

/// Makes zstd frames with one reused context.
pub struct FrameCompressor {
    inner: zstd::bulk::Compressor<'static>,
}

impl FrameCompressor {
    /// `level` as in zstd: 1 fast … 19 small; [`USUAL_LEVEL`] is the recorder's default.
    pub fn new(level: i32) -> io::Result<Self> {
        let mut inner = zstd::bulk::Compressor::new(level)?;
        if level == USUAL_LEVEL {
            // For what a frame holds, columns of one or two bytes a value and columns of time stamps, this is a fifth to a
            // third faster than the level by itself, for 1 to 4 % more bytes: its table stays in the processor's nearest
            // cache, and fewer matches are found in time stamps, where none is worth it.
            inner.set_parameter(CParameter::HashLog(13))?;
            inner.set_parameter(CParameter::MinMatch(6))?;
        }
        inner.include_checksum(true)?;
        inner.include_contentsize(true)?;
        inner.include_dictid(false)?;
        Ok(FrameCompressor { inner })
    }

    /// Replaces `out` by one whole frame holding `raw`. Fails when `raw` is longer than [`MAX_RAW`].
    pub fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if raw.len() > MAX_RAW {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than 64 MiB for one zstd frame"));
        }
        out.clear();
        out.reserve(zstd_safe::compress_bound(raw.len()));
        self.inner.compress_to_buffer(raw, out)?;
        Ok(())
    }
}

/// Undoes zstd frames with one reused context.
pub struct FrameDecompressor {
    inner: zstd::bulk::Decompressor<'static>,
}

impl FrameDecompressor {
    /// A fresh context.
    pub fn new() -> io::Result<Self> {
        Ok(FrameDecompressor { inner: zstd::bulk::Decompressor::new()? })
    }

    /// Replaces `out` by the content of `frame`, which must be exactly one whole zstd frame.
    /// Never gives back more than [`MAX_RAW`] bytes.
    pub fn decompress(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<(), DamageKind> {
        out.clear();
        match zstd_safe::get_frame_content_size(frame) {
            Ok(Some(size)) => {
                let size = usize::try_from(size).ok().filter(|&s| s <= MAX_RAW).ok_or(DamageKind::TooLarge)?;
                // A small frame may claim a big content: blocks hold 128 KiB at most and cost at least 4 bytes.
                if size > frame.len().saturating_mul(MAX_BLOCK as usize / 4) {
                    return Err(DamageKind::Corrupt);
                }
                out.reserve(size);
                self.inner.decompress_to_buffer(frame, out).map_err(|e| damage_of(&e))?;
                Ok(())
            }
            Ok(None) => decompress_unsized(frame, out),
            Err(_) => Err(DamageKind::NotAFrame),
        }
    }
}

/// Frames of foreign writers that stream need not state their content size.
fn decompress_unsized(frame: &[u8], out: &mut Vec<u8>) -> Result<(), DamageKind> {
    let decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(|_| DamageKind::Corrupt)?;
    let limit = MAX_RAW as u64 + 1;
    decoder.single_frame().take(limit).read_to_end(out).map_err(|e| damage_of(&e))?;
    if out.len() > MAX_RAW {
        out.clear();
        return Err(DamageKind::TooLarge);
    }
    Ok(())
}

/// libzstd says what failed only in words; the checksum is worth telling apart.
fn damage_of(error: &io::Error) -> DamageKind {
    if error.to_string().contains("checksum") { DamageKind::Checksum } else { DamageKind::Corrupt }
}

/// Bytes that can be read at any offset: a file, or a slice in tests.
pub trait ReadAt {
    /// Fills `buf` from `offset` as far as there are bytes; returns how many.
    fn read_full_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_full_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
}

impl ReadAt for [u8] {
    fn read_full_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|o| self.get(o..)).unwrap_or(&[]);
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

/// What stands at an offset of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A whole zstd frame of `len` bytes; `raw` is its stated content size, if stated.
    Zstd {
        /// Bytes in the file.
        len: u64,
        /// Bytes of content.
        raw: Option<u64>,
    },
    /// A whole skippable frame of `len` bytes, header included.
    Skippable {
        /// Bytes in the file.
        len: u64,
        /// Low four bits of its magic.
        variant: u8,
    },
    /// The end of the file, exactly.
    End,
    /// A frame starts here and the file ends inside it.
    Cut,
    /// No frame starts here.
    NotAFrame,
    /// A frame starts here whose content would pass [`MAX_RAW`].
    TooLarge,
}

/// Looks at what starts at `offset` in a file of `end` bytes, without decompressing.
pub fn look<R: ReadAt + ?Sized>(file: &R, offset: u64, end: u64) -> io::Result<Found> {
    if offset >= end {
        return Ok(Found::End);
    }
    let mut head = [0u8; MAX_HEADER + 3];
    let room = usize::try_from(end - offset).unwrap_or(usize::MAX).min(head.len());
    let got = file.read_full_at(&mut head[..room], offset)?;
    let head = &head[..got];
    let Some(magic) = le(head, 0, 4) else {
        return Ok(if could_be_magic(head) { Found::Cut } else { Found::NotAFrame });
    };
    let magic = magic as u32;
    if magic & !0xF == SKIPPABLE {
        let Some(size) = le(head, 4, 4) else { return Ok(Found::Cut) };
        let len = 8 + size;
        let found = Found::Skippable { len, variant: (magic & 0xF) as u8 };
        return Ok(if len > end - offset { Found::Cut } else { found });
    }
    if magic != MAGIC {
        return Ok(Found::NotAFrame);
    }
    walk_blocks(file, offset, end, head)
}

/// The first bytes of a cut file may still be the beginning of either magic.
fn could_be_magic(head: &[u8]) -> bool {
    let fits = |magic: u32| magic.to_le_bytes().starts_with(head);
    fits(MAGIC) || (0..16).any(|v| fits(SKIPPABLE | v))
}

fn walk_blocks<R: ReadAt + ?Sized>(file: &R, start: u64, end: u64, head: &[u8]) -> io::Result<Found> {
    let Some(&descriptor) = head.get(4) else { return Ok(Found::Cut) };
    if descriptor & 0x08 != 0 {
        return Ok(Found::NotAFrame); // reserved bit, must be 0
    }
    let single = descriptor & 0x20 != 0;
    let dictionary = [0usize, 1, 2, 4][usize::from(descriptor & 3)];
    let size_field = [usize::from(single), 2, 4, 8][usize::from(descriptor >> 6)];
    let size_at = 5 + usize::from(!single) + dictionary;
    let Some(size) = le(head, size_at, size_field) else { return Ok(Found::Cut) };
    let raw = match size_field {
        0 => None,
        2 => Some(size + 256),
        _ => Some(size),
    };
    if raw.is_some_and(|r| r > MAX_RAW as u64) {
        return Ok(Found::TooLarge);
    }
    let checksum = if descriptor & 0x04 != 0 { 4 } else { 0 };
    let mut at = start + (size_at + size_field) as u64;
    let mut blocks = 0u32;
    loop {
        let mut block = [0u8; 3];
        if at + 3 > end || file.read_full_at(&mut block, at)? < 3 {
            return Ok(Found::Cut);
        }
        let block = u32::from_le_bytes([block[0], block[1], block[2], 0]);
        let (last, kind, size) = (block & 1 != 0, (block >> 1) & 3, block >> 3);
        if kind == 3 || size > MAX_BLOCK {
            return Ok(Found::NotAFrame);
        }
        at += 3 + if kind == 1 { 1 } else { u64::from(size) };
        blocks += 1;
        if blocks as usize > MAX_RAW / 1024 {
            return Ok(Found::TooLarge); // many tiny blocks: nobody writes that
        }
        if last {
            break;
        }
    }
    at += checksum;
    Ok(if at > end { Found::Cut } else { Found::Zstd { len: at - start, raw } })
}

/// Little-endian number of `len` ≤ 8 bytes at `at`.
fn le(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let mut wide = [0u8; 8];
    wide[..len].copy_from_slice(bytes.get(at..at + len)?);
    Some(u64::from_le_bytes(wide))
}

/// A skippable frame holding `content`, marked with `variant` (0..=15).
pub fn skippable(variant: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + content.len());
    out.extend_from_slice(&(SKIPPABLE | u32::from(variant & 0xF)).to_le_bytes());
    // Footers are bounded by the index of a 60 s segment, far below 4 GiB.
    out.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(raw: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        FrameCompressor::new(3).unwrap().compress(raw, &mut out).unwrap();
        out
    }

    #[test]
    fn frames_say_their_size_and_undo_exactly() {
        for len in [0usize, 1, 255, 256, 300, 65_536, 300_000] {
            let raw: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
            let f = frame(&raw);
            let found = look(&f[..], 0, f.len() as u64).unwrap();
            assert_eq!(found, Found::Zstd { len: f.len() as u64, raw: Some(len as u64) });
            let mut back = Vec::new();
            FrameDecompressor::new().unwrap().decompress(&f, &mut back).unwrap();
            assert_eq!(back, raw);
        }
    }

    #[test]
    fn case_66_every_cut_of_a_frame_is_seen_as_cut() {
        let f = frame(b"some packets, some more packets, and again some packets");
        for n in 1..f.len() {
            assert_eq!(look(&f[..n], 0, n as u64).unwrap(), Found::Cut, "cut at {n}");
        }
        assert_eq!(look(&f[..0], 0, 0).unwrap(), Found::End);
    }

    #[test]
    fn case_66_a_wrong_checksum_is_told_apart_from_garbage() {
        let mut f = frame(b"some packets");
        let n = f.len();
        f[n - 1] ^= 1;
        let mut out = Vec::new();
        assert_eq!(FrameDecompressor::new().unwrap().decompress(&f, &mut out), Err(DamageKind::Checksum));
        assert_eq!(look(&b"not zstd at all"[..], 0, 15).unwrap(), Found::NotAFrame);
    }

    #[test]
    fn a_small_frame_that_claims_gigabytes_is_refused_before_allocating() {
        // single segment, 8-byte content size of 1 TiB, one empty raw last block
        let mut f = MAGIC.to_le_bytes().to_vec();
        f.push(0xE0);
        f.extend_from_slice(&(1u64 << 40).to_le_bytes());
        f.extend_from_slice(&[1, 0, 0]);
        assert_eq!(look(&f[..], 0, f.len() as u64).unwrap(), Found::TooLarge);
        let mut out = Vec::new();
        assert_eq!(FrameDecompressor::new().unwrap().decompress(&f, &mut out), Err(DamageKind::TooLarge));
        // 8 MiB is within the limit but not within what one block of 4 bytes can hold
        f[5..13].copy_from_slice(&(8u64 << 20).to_le_bytes());
        assert_eq!(FrameDecompressor::new().unwrap().decompress(&f, &mut out), Err(DamageKind::Corrupt));
        assert!(out.capacity() < 1 << 20);
    }

    #[test]
    fn a_streamed_frame_without_content_size_opens() {
        let f = zstd::stream::encode_all(&vec![7u8; 400_000][..], 1).unwrap();
        assert_eq!(look(&f[..], 0, f.len() as u64).unwrap(), Found::Zstd { len: f.len() as u64, raw: None });
        let mut out = Vec::new();
        FrameDecompressor::new().unwrap().decompress(&f, &mut out).unwrap();
        assert_eq!(out, vec![7u8; 400_000]);
    }

    #[test]
    fn skippable_frames_are_seen_with_their_variant() {
        let s = skippable(13, b"abc");
        assert_eq!(look(&s[..], 0, 11).unwrap(), Found::Skippable { len: 11, variant: 13 });
        assert_eq!(look(&s[..10], 0, 10).unwrap(), Found::Cut);
    }

    proptest! {
        #[test]
        fn frame_sizes_agree_with_libzstd(raw in proptest::collection::vec(any::<u8>(), 0..5000), level in 1..6) {
            let mut f = Vec::new();
            FrameCompressor::new(level).unwrap().compress(&raw, &mut f).unwrap();
            f.extend_from_slice(b"rest of the file");
            let len = zstd_safe::find_frame_compressed_size(&f).unwrap() as u64;
            prop_assert_eq!(look(&f[..], 0, f.len() as u64).unwrap(), Found::Zstd { len, raw: Some(raw.len() as u64) });
        }

        #[test]
        fn any_bytes_are_looked_at_and_undone_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()) {
            if magic && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            }
            let found = look(&bytes[..], 0, bytes.len() as u64).unwrap();
            if let Found::Zstd { len, .. } | Found::Skippable { len, .. } = found {
                prop_assert!(len <= bytes.len() as u64);
            }
            let _ = FrameDecompressor::new().unwrap().decompress(&bytes, &mut Vec::new());
        }
    }
}
