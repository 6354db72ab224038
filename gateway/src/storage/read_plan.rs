//! Which windows a range is read by, one at a time.
//!
//! A window lies within one content and begins at a multiple of the window size there, save where the range itself
//! begins or ends within one: so the same bytes always belong to the same block, and blocks can be kept. The plan is
//! walked, not written down: a range of terabytes takes no more memory than one of bytes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

/// A content and where it lies in the object.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) content: Uuid,
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) inline: Option<Bytes>,
}

/// A piece of a content, small enough for one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) content: Uuid,
    /// What is wanted, within the content.
    pub(super) bytes: Range<u64>,
    /// The block that they lie in, within the content.
    pub(super) block: Range<u64>,
    /// What is wanted, where it came with the content row.
    pub(super) inline: Option<Bytes>,
}

/// A block of which less than one part in so many is wanted is not read for it.
const LEAST_SHARE: u64 = 8;

impl Window {
    /// How many bytes are wanted.
    pub(super) fn length(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    /// How long the block is.
    pub(super) fn block_length(&self) -> u64 {
        self.block.end - self.block.start
    }

    /// Whether so little of the block is wanted that the rest is not worth reading or holding on to.
    pub(super) fn is_sliver(&self) -> bool {
        self.length().saturating_mul(LEAST_SHARE) < self.block_length()
    }
}

/// The windows of a range, in order.
#[derive(Debug)]
pub(super) struct ReadPlan {
    segments: Arc<[Segment]>,
    /// The segment that `at` lies in, or one before it.
    segment: usize,
    /// The next byte to be planned, within the object.
    at: u64,
    end: u64,
    window: u64,
}

impl ReadPlan {
    /// The plan of a range of an object that consists of `segments`.
    pub(super) fn new(segments: Arc<[Segment]>, range: &Range<u64>, window: u64) -> Self {
        Self { segments, segment: 0, at: range.start, end: range.end, window }
    }
}

impl Iterator for ReadPlan {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        while self.at < self.end {
            let segment = self.segments.get(self.segment)?;
            let offset = self.at.saturating_sub(segment.start);
            let end = self.end.saturating_sub(segment.start).min(segment.size);
            if offset >= end {
                self.segment += 1;
                continue;
            }
            let window = cut(segment, offset..end, self.window);
            self.at = segment.start + window.bytes.end;
            return Some(window);
        }
        None
    }
}

/// The first window of `wanted` bytes of a segment.
fn cut(segment: &Segment, wanted: Range<u64>, window: u64) -> Window {
    // A content whose bytes in the row are fewer than its size is read as a window, which reports the defect.
    if let Some(bytes) = segment.inline.as_ref().and_then(|inline| slice(inline, &wanted)) {
        return Window { content: segment.content, bytes: wanted, block: 0..segment.size, inline: Some(bytes) };
    }
    let start = wanted.start - wanted.start % window;
    let block = start..start.saturating_add(window).min(segment.size);
    Window { content: segment.content, bytes: wanted.start..wanted.end.min(block.end), block, inline: None }
}

/// `range` of `bytes`, where all of it is there.
pub(super) fn slice(bytes: &Bytes, range: &Range<u64>) -> Option<Bytes> {
    let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
    (range.start <= range.end && range.end <= bytes.len()).then(|| bytes.slice(range))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segments(sizes: &[(u64, bool)]) -> Arc<[Segment]> {
        let mut start = 0;
        let lay = |&(size, inline): &(u64, bool)| {
            let bytes = inline.then(|| Bytes::from(vec![0; usize::try_from(size).unwrap()]));
            let segment = Segment { content: Uuid::from_u128(u128::from(start)), start, size, inline: bytes };
            start += size;
            segment
        };
        sizes.iter().map(lay).collect()
    }

    proptest! {
        #[test]
        fn windows_cover_the_range_exactly_and_in_order(
            sizes in proptest::collection::vec((0u64..5000, any::<bool>()), 1..6),
            a in 0u64..20_000,
            b in 0u64..20_000,
            window in 1u64..3000,
        ) {
            let segments = segments(&sizes);
            let total: u64 = sizes.iter().map(|(size, _)| size).sum();
            let range = a.min(b).min(total)..a.max(b).min(total);
            let mut at = range.start;
            for w in ReadPlan::new(Arc::clone(&segments), &range, window) {
                let holder = |s: &&Segment| s.start <= at && at < s.start + s.size;
                let segment = segments.iter().find(holder).unwrap();
                prop_assert_eq!((w.content, segment.start + w.bytes.start), (segment.content, at));
                prop_assert!(w.length() > 0 && w.bytes.end <= segment.size);
                prop_assert!(w.block.start <= w.bytes.start && w.bytes.end <= w.block.end);
                match &w.inline {
                    Some(bytes) => prop_assert_eq!(bytes.len() as u64, w.length()),
                    None => {
                        prop_assert_eq!(w.block.start % window, 0);
                        prop_assert_eq!(w.block.end, (w.block.start + window).min(segment.size));
                    }
                }
                at += w.length();
            }
            prop_assert_eq!(at, range.end);
        }

        #[test]
        fn the_same_byte_lies_in_the_same_block_whatever_the_range(size in 1u64..9000, at in 0u64..9000, before in 0u64..4000, after in 1u64..4000, window in 1u64..3000) {
            let at = at % size;
            let block_of = |range: Range<u64>| {
                ReadPlan::new(segments(&[(size, false)]), &range, window).find(|w| w.bytes.contains(&at)).map(|w| w.block)
            };
            let wide = at.saturating_sub(before)..(at + after).min(size);
            prop_assert_eq!(block_of(wide), block_of(at..at + 1));
        }
    }

    #[test]
    fn a_small_part_of_a_block_is_a_sliver() {
        let window = |bytes: Range<u64>, block: Range<u64>| Window { content: Uuid::nil(), bytes, block, inline: None };
        assert!(window(0..127, 0..1024).is_sliver());
        assert!(!window(0..128, 0..1024).is_sliver());
        assert!(!window(1024..1034, 1024..1034).is_sliver(), "all of the short block at the end");
    }

    #[test]
    fn bytes_in_the_row_that_are_too_few_are_read_as_windows() {
        let short = Segment { content: Uuid::nil(), start: 0, size: 10, inline: Some(Bytes::from_static(b"12345")) };
        let plan: Vec<_> = ReadPlan::new(Arc::from([short]), &(0..10), 1024).collect();
        assert_eq!((plan.len(), plan[0].inline.clone(), plan[0].bytes.clone()), (1, None, 0..10));
    }
}
