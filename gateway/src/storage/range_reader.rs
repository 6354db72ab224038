//! Bytes out: one query locates, then windows are read ahead of the client.
//!
//! A window is a statement of its own, without transaction or descriptor, on whatever connection of the pool is free:
//! a slow client holds no connection, and one download may use several backends. Each window is fetched by a task of
//! its own, so that it completes whether or not the client is reading; its bytes stay in the buffer they were received
//! in until the socket has taken them, and so does its share of the download budget. The window that is needed next
//! waits for a share; windows ahead of it are only fetched when a share is free.
//!
//! A read is registered before its locate query is sent ([`RunningReads`](super::RunningReads)), and the registration
//! lives as long as the [`Located`] or the stream: what it located cannot be reaped. An error in the stream has to abort
//! the response; a stream that ends has delivered every byte.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::budget::Permit;
use super::error::{ErrorKind, Result, StorageError};
use super::index::locate::{self, Found, LocatedPart, LocatedRow, Wanted};
use super::index::objects;
use super::types::{BucketName, ObjectInfo, ObjectKey, Page, PartInfo, RangeRequest, resolve_range};
use super::{ReadGuard, Storage, content};

/// Bytes to a client.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// An object found. What it refers to cannot be reaped until this, or the stream from it, is dropped.
pub struct Located {
    /// What the index knows.
    pub info: ObjectInfo,
    pub(super) content: Uuid,
    range: Option<Range<u64>>,
    part: Option<PartInfo>,
    /// Where the bytes of the range lie, in order; empty for HEAD.
    pub(super) segments: Vec<Segment>,
    storage: Storage,
    guard: ReadGuard,
}

/// A content and where it lies in the object.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) content: Uuid,
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) inline: Option<Bytes>,
}

/// A piece of a content, small enough for one statement.
#[derive(Debug, PartialEq, Eq)]
struct WindowPlan {
    segment: usize,
    offset: u64,
    length: u64,
}

impl Storage {
    /// Finds an object and where the requested bytes lie.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::NoSuchKey`], and those of the database.
    pub async fn locate(&self, bucket: &BucketName, key: &ObjectKey, range: RangeRequest) -> Result<Located> {
        self.find(bucket, key, range, true).await
    }

    /// Finds an object without its bytes.
    ///
    /// # Errors
    /// As [`Storage::locate`].
    pub async fn head(&self, bucket: &BucketName, key: &ObjectKey, range: RangeRequest) -> Result<Located> {
        self.find(bucket, key, range, false).await
    }

    /// The parts of a multipart object, after a number, at most `max`; none for any other object.
    ///
    /// # Errors
    /// As [`Storage::locate`].
    pub async fn object_parts(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        after: u32,
        max: u32,
    ) -> Result<(ObjectInfo, Page<PartInfo>)> {
        let located = self.head(bucket, key, RangeRequest::Whole).await?;
        let mut entries =
            objects::parts(&self.db, located.content, &located.info, after, max.saturating_add(1)).await?;
        let truncated = entries.len() > max as usize;
        entries.truncate(max as usize);
        Ok((located.info, Page { entries, truncated }))
    }

    async fn find(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        range: RangeRequest,
        with_content: bool,
    ) -> Result<Located> {
        let guard = self.reads.begin().await?;
        let wanted = Wanted { bucket: bucket.clone(), key: key.clone(), with_content };
        match self.locates.locate(wanted).await? {
            Found::NoBucket => Err(ErrorKind::NoSuchBucket.into()),
            Found::NoKey => Err(ErrorKind::NoSuchKey.into()),
            Found::Object(row) => Located::new(self.clone(), guard, *row, range, with_content).await,
        }
    }
}

impl Located {
    async fn new(
        storage: Storage,
        guard: ReadGuard,
        row: LocatedRow,
        request: RangeRequest,
        with_content: bool,
    ) -> Result<Self> {
        let LocatedRow { info, content, inline } = row;
        let mut range = resolve_range(request, info.size);
        let mut part = None;
        let mut segments = Vec::new();
        if info.parts_count.is_none() {
            if let RangeRequest::Part(number) = request {
                // An object that was stored by one request is its own part 1.
                range = (number == 1).then_some(0..info.size);
            }
            segments.push(Segment { content, start: 0, size: info.size, inline });
        } else if let RangeRequest::Part(number) = request {
            let found = locate::part(&storage.db, content, number).await?;
            range = found.as_ref().map(|p| p.start..p.start + p.size);
            part = found.as_ref().map(|p| part_info(&info, p));
            segments.extend(found.map(Segment::from));
        } else if let Some(range) = range.as_ref().filter(|_| with_content) {
            let parts = locate::parts_in_range(&storage.db, content, range).await?;
            segments.extend(parts.into_iter().map(Segment::from));
        }
        Ok(Self { info, content, range, part, segments, storage, guard })
    }

    /// The bytes that were asked for, within the object. `None`: they cannot be had (416).
    #[must_use]
    pub fn range(&self) -> Option<Range<u64>> {
        self.range.clone()
    }

    /// The part that was asked for, of a multipart object.
    #[must_use]
    pub fn part(&self) -> Option<&PartInfo> {
        self.part.as_ref()
    }

    /// Streams the bytes of [`Located::range`]; nothing where there is none. The first of them are fetched before this
    /// returns: whatever is short or broken by then can still be answered with an error.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`], [`ErrorKind::ReadInterrupted`], and those of the database.
    pub async fn open(self) -> Result<ByteStream> {
        let mut stream = self.reopen();
        let first = stream.next().await.transpose()?;
        Ok(Box::pin(futures::stream::iter(first.map(Ok)).chain(stream)))
    }

    /// As [`Located::open`], for a caller that needs this afterwards; nothing is fetched yet.
    pub(super) fn reopen(&self) -> ByteStream {
        let range = self.range.clone().unwrap_or(0..0);
        let reader = Reader {
            windows: plan(&self.segments, &range, self.storage.options.read_window).into(),
            fetching: VecDeque::new(),
            read_ahead: self.storage.options.read_ahead.max(1),
            segments: self.segments.clone(),
            storage: self.storage.clone(),
            guard: self.guard.clone(),
        };
        Box::pin(futures::stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|bytes| (bytes, reader)))
        }))
    }
}

impl From<LocatedPart> for Segment {
    fn from(part: LocatedPart) -> Self {
        Self { content: part.content, start: part.start, size: part.size, inline: None }
    }
}

fn part_info(object: &ObjectInfo, part: &LocatedPart) -> PartInfo {
    PartInfo {
        number: part.number,
        size: part.size,
        start: part.start,
        etag: String::new(),
        checksum: objects::part_checksum(object.checksum.as_ref(), part.checksum.clone()),
        last_modified: object.last_modified,
    }
}

/// Cuts a range into windows that lie within one content each. Windows begin at multiples of the window size within
/// their content, so that the same bytes are always read by the same windows.
fn plan(segments: &[Segment], range: &Range<u64>, window: u64) -> Vec<WindowPlan> {
    let mut windows = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let end = range.end.saturating_sub(segment.start).min(segment.size);
        let mut offset = range.start.saturating_sub(segment.start);
        while offset < end {
            let length =
                if segment.inline.is_some() { end - offset } else { (window - offset % window).min(end - offset) };
            windows.push(WindowPlan { segment: index, offset, length });
            offset += length;
        }
    }
    windows
}

struct Reader {
    segments: Vec<Segment>,
    windows: VecDeque<WindowPlan>,
    fetching: VecDeque<Fetch>,
    read_ahead: usize,
    storage: Storage,
    guard: ReadGuard,
}

enum Fetch {
    AtHand(Bytes),
    UnderWay(AbortOnDropHandle<Result<Bytes>>),
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.fetching.is_empty() {
            let Some(window) = self.windows.pop_front() else { return Ok(None) };
            let fetch = match self.at_hand(&window) {
                Some(bytes) => Fetch::AtHand(bytes),
                None => {
                    let permit = self.storage.downloads.take(window.length).await?;
                    self.fetch(&window, permit)?
                }
            };
            self.fetching.push_back(fetch);
        }
        self.fetch_ahead()?;
        let Some(first) = self.fetching.pop_front() else { return Ok(None) };
        let bytes = match first {
            Fetch::AtHand(bytes) => bytes,
            Fetch::UnderWay(task) => task.await.map_err(|e| StorageError::new(ErrorKind::Internal, e))??,
        };
        self.guard.check()?;
        self.fetch_ahead()?;
        Ok(Some(bytes))
    }

    fn fetch_ahead(&mut self) -> Result<()> {
        while self.fetching.len() < self.read_ahead {
            let Some(window) = self.windows.pop_front() else { break };
            if let Some(bytes) = self.at_hand(&window) {
                self.fetching.push_back(Fetch::AtHand(bytes));
                continue;
            }
            let Some(permit) = self.storage.downloads.try_take(window.length) else {
                self.windows.push_front(window);
                break;
            };
            let fetch = self.fetch(&window, permit)?;
            self.fetching.push_back(fetch);
        }
        Ok(())
    }

    fn at_hand(&self, window: &WindowPlan) -> Option<Bytes> {
        let inline = self.segments[window.segment].inline.as_ref()?;
        let range = usize::try_from(window.offset).ok()?..usize::try_from(window.offset + window.length).ok()?;
        // A content whose bytes in the row are fewer than its size is read as a window, which reports the defect.
        (range.end <= inline.len()).then(|| inline.slice(range))
    }

    fn fetch(&self, window: &WindowPlan, permit: Permit) -> Result<Fetch> {
        self.guard.check()?;
        let db = self.storage.db.clone();
        let content = self.segments[window.segment].content;
        let too_far = |_| StorageError::new(ErrorKind::Internal, "a window lies beyond every large object");
        let offset = i64::try_from(window.offset).map_err(too_far)?;
        let length = i32::try_from(window.length).map_err(too_far)?;
        let task = tokio::spawn(async move {
            let window = content::read_window(&db, content, offset, length).await?;
            Ok(Bytes::from_owner(Accounted { window, _permit: permit }))
        });
        Ok(Fetch::UnderWay(AbortOnDropHandle::new(task)))
    }
}

/// A window with its share of the budget, which comes back when the last slice of the bytes is dropped.
struct Accounted {
    window: content::Window,
    _permit: Permit,
}

impl AsRef<[u8]> for Accounted {
    fn as_ref(&self) -> &[u8] {
        self.window.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segments(sizes: &[u64]) -> Vec<Segment> {
        let mut start = 0;
        sizes
            .iter()
            .map(|&size| {
                let segment = Segment { content: Uuid::nil(), start, size, inline: None };
                start += size;
                segment
            })
            .collect()
    }

    proptest! {
        #[test]
        fn windows_cover_the_range_exactly_and_in_order(sizes in proptest::collection::vec(0u64..5000, 1..6), a in 0u64..20_000, b in 0u64..20_000, window in 1u64..3000) {
            let segments = segments(&sizes);
            let total: u64 = sizes.iter().sum();
            let range = a.min(b).min(total)..a.max(b).min(total);
            let mut at = range.start;
            for w in plan(&segments, &range, window) {
                let segment = &segments[w.segment];
                prop_assert_eq!(segment.start + w.offset, at);
                prop_assert!(w.length > 0 && w.length <= window && w.offset + w.length <= segment.size);
                at += w.length;
            }
            prop_assert_eq!(at, range.end);
        }
    }
}
