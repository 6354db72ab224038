//! Bytes out: one query locates, then windows are read ahead of the client.
//!
//! A window that the cache holds is taken from there, without a task or a statement. Any other is a statement of its own,
//! without transaction or descriptor, on whatever connection of the pool is free: a slow client holds no connection, and
//! one download may use several backends. It is fetched by a task of its own, so that it completes whether or not the
//! client is reading: the whole block, where the cache is to keep it. What goes out has its share of the download budget,
//! held or fetched, until the socket has taken it: blocks that were evicted while a slow client reads them are paid for.
//! The window that is needed next waits for a share; windows ahead of it are only fetched when a share is free, and taken back
//! from a client that stands still when somebody else waits for one (`read_ahead`).
//!
//! A read is registered before its locate query is sent ([`RunningReads`](super::RunningReads)), and the registration
//! lives as long as the [`Located`] or the stream: what it located cannot be reaped. An error in the stream has to abort
//! the response; a stream that ends has delivered every byte.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::budget::Permit;
use super::content::block_cache::BlockKey;
use super::content::flights::{Boarding, Flight, landing_error};
use super::error::{ErrorKind, Result, StorageError};
use super::index::locate::{self, Found, LocatedPart, LocatedRow, Wanted};
use super::index::objects;
use super::read_ahead::{self, Slot};
use super::read_plan::{ReadPlan, Segment, Window, slice};
use super::types::{ObjectInfo, Page, PartInfo, RangeRequest, resolve_range};
use super::{ObjectVersion, ReadGuard, Storage, content};

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
    pub(super) segments: Arc<[Segment]>,
    storage: Storage,
    guard: ReadGuard,
}

impl Storage {
    /// Finds an object and where the requested bytes lie.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::NoSuchKey`], [`ErrorKind::NoSuchVersion`], [`ErrorKind::DeleteMarker`], and
    /// those of the database.
    pub async fn locate(&self, object: &ObjectVersion, range: RangeRequest) -> Result<Located> {
        self.find(object, range, true).await
    }

    /// Finds an object without its bytes.
    ///
    /// # Errors
    /// As [`Storage::locate`].
    pub async fn head(&self, object: &ObjectVersion, range: RangeRequest) -> Result<Located> {
        self.find(object, range, false).await
    }

    /// The parts of a multipart object, after a number, at most `max`; none for any other object.
    ///
    /// # Errors
    /// As [`Storage::locate`].
    pub async fn object_parts(
        &self,
        object: &ObjectVersion,
        after: u32,
        max: u32,
    ) -> Result<(ObjectInfo, Page<PartInfo>)> {
        let located = self.head(object, RangeRequest::Whole).await?;
        let mut entries =
            objects::parts(&self.db, located.content, &located.info, after, max.saturating_add(1)).await?;
        let truncated = entries.len() > max as usize;
        entries.truncate(max as usize);
        Ok((located.info, Page { entries, truncated }))
    }

    async fn find(&self, object: &ObjectVersion, range: RangeRequest, with_content: bool) -> Result<Located> {
        let guard = self.reads.begin().await?;
        let wanted = Wanted { bucket: object.bucket.clone(), key: object.key.clone(), with_content };
        let found = match object.version {
            None => self.locates.locate(wanted).await?,
            Some(version) => locate::locate_version(&self.db, &wanted, version).await?,
        };
        match found {
            Found::NoBucket => Err(ErrorKind::NoSuchBucket.into()),
            Found::NoKey if object.version.is_some() => Err(ErrorKind::NoSuchVersion.into()),
            Found::NoKey => Err(ErrorKind::NoSuchKey.into()),
            Found::Marker(marker) => Err(StorageError::new(ErrorKind::DeleteMarker, marker)),
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
        Ok(Self { info, content, range, part, segments: segments.into(), storage, guard })
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
        let mut stream = self.stream(true);
        let first = stream.next().await.transpose()?;
        Ok(Box::pin(futures::stream::iter(first.map(Ok)).chain(stream)))
    }

    /// As [`Located::open`], for a caller that needs this afterwards; nothing is fetched yet. What a copy reads once is
    /// not worth a place in the cache.
    pub(super) fn reopen(&self) -> ByteStream {
        self.stream(false)
    }

    fn stream(&self, fills_cache: bool) -> ByteStream {
        let range = self.range.clone().unwrap_or(0..0);
        let reader = Reader {
            plan: ReadPlan::new(Arc::clone(&self.segments), &range, self.storage.options.read_window),
            ahead: VecDeque::new(),
            fills_cache,
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

struct Reader {
    plan: ReadPlan,
    /// The next windows, in order, of which some are on their way already.
    ahead: VecDeque<Ahead>,
    /// Whether whole blocks are read for the cache.
    fills_cache: bool,
    storage: Storage,
    guard: ReadGuard,
}

enum Ahead {
    Planned(Window),
    UnderWay(Window, Slot<Fetch>),
}

/// How often one that waits for memory looks for some that could be taken back.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(200);

/// A window on its way from the database.
pub(super) struct Fetch {
    window: Window,
    permit: Permit,
    source: Source,
}

enum Source {
    /// The whole block, which came in while this reader was looking.
    Held(Bytes),
    /// The whole block, for the cache and whoever waits for it.
    Block(Flight),
    /// The wanted bytes and no more, which stay in the buffer that they were received in until the socket has taken them.
    Direct(AbortOnDropHandle<Result<content::Window>>),
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let window = match self.ahead.pop_front() {
            Some(Ahead::UnderWay(window, slot)) => match read_ahead::take(&slot) {
                Some(fetch) => return self.land(fetch).await.map(Some),
                None => window,
            },
            Some(Ahead::Planned(window)) => window,
            None => match self.plan.next() {
                Some(window) => window,
                None => return Ok(None),
            },
        };
        self.guard.check()?;
        if window.inline.is_some() {
            return Ok(window.inline);
        }
        let permit = self.permit(self.share(&window)).await?;
        let Some(block) = self.storage.cache.get(&block_key(&window)) else {
            let fetch = self.fetch(window, permit)?;
            return self.land(fetch).await.map(Some);
        };
        metrics::counter!("lobgate_cache_hits_total").increment(1);
        self.fetch_ahead()?;
        outgoing(&block, &window, permit).map(Some)
    }

    /// A share of the memory for the window that is needed next. Nobody waits for one while holding others for later
    /// windows: readers that did would wait for each other.
    async fn permit(&mut self, bytes: u64) -> Result<Permit> {
        if let Some(permit) = self.storage.downloads.try_take(bytes) {
            return Ok(permit);
        }
        for place in &mut self.ahead {
            if let Ahead::UnderWay(window, _) = place {
                *place = Ahead::Planned(window.clone());
            }
        }
        let mut share = std::pin::pin!(self.storage.downloads.take(bytes));
        loop {
            self.storage.read_ahead.reclaim();
            if let Ok(permit) = tokio::time::timeout(RECLAIM_INTERVAL, &mut share).await {
                return permit;
            }
        }
    }

    /// Waits for a window, while those behind it are on their way too.
    async fn land(&mut self, fetch: Fetch) -> Result<Bytes> {
        self.fetch_ahead()?;
        let Fetch { window, permit, source } = fetch;
        let bytes = match source {
            Source::Held(block) => outgoing(&block, &window, permit)?,
            Source::Block(flight) => outgoing(&flight.await.map_err(landing_error)?, &window, permit)?,
            Source::Direct(task) => {
                let received = task.await.map_err(|e| StorageError::new(ErrorKind::Internal, e))??;
                Bytes::from_owner(Accounted { bytes: received, _permit: permit })
            }
        };
        self.guard.check()?;
        self.fetch_ahead()?;
        Ok(bytes)
    }

    /// Begins to fetch what is absent of the next windows, as far as memory is free and nobody waits for a connection:
    /// what others need now goes before what this one will need.
    fn fetch_ahead(&mut self) -> Result<()> {
        while self.ahead.len() < self.storage.options.read_ahead {
            let Some(window) = self.plan.next() else { break };
            self.ahead.push_back(Ahead::Planned(window));
        }
        for place in 0..self.ahead.len() {
            let Ahead::Planned(window) = &self.ahead[place] else { continue };
            if window.inline.is_some() || self.storage.cache.contains(&block_key(window)) {
                continue;
            }
            if self.storage.db.short_work_queues() {
                break;
            }
            let Some(permit) = self.storage.downloads.try_take(self.share(window)) else { break };
            let (window, fetch) = (window.clone(), self.fetch(window.clone(), permit)?);
            self.ahead[place] = Ahead::UnderWay(window, self.storage.read_ahead.hold(fetch));
        }
        Ok(())
    }

    fn fetch(&self, window: Window, permit: Permit) -> Result<Fetch> {
        self.guard.check()?;
        metrics::counter!("lobgate_cache_misses_total").increment(1);
        let source = if self.fills_cache && self.storage.cache.is_on() && !window.is_sliver() {
            let received = self.read(&window, &window.block);
            let block = async move { Ok(received.await?.copied_out()) };
            match self.storage.flights.board(&self.storage.cache, block_key(&window), block) {
                Boarding::Held(block) => Source::Held(block),
                Boarding::UnderWay(flight) => Source::Block(flight),
            }
        } else {
            Source::Direct(AbortOnDropHandle::new(tokio::spawn(self.read(&window, &window.bytes))))
        };
        Ok(Fetch { window, permit, source })
    }

    /// Reads from the database, under a guard of its own: whoever began the fetch may have left when it is answered.
    fn read(
        &self,
        window: &Window,
        range: &Range<u64>,
    ) -> impl Future<Output = Result<content::Window>> + Send + use<> {
        let (db, guard, content) = (self.storage.db.clone(), self.guard.clone(), window.content);
        let (fetches, range) = (Arc::clone(&self.storage.fetches), range.clone());
        async move {
            let _turn = fetches.acquire_owned().await;
            let received = content::read_window(&db, content, range).await;
            drop(guard);
            received
        }
    }

    /// How much memory a window takes on its way out: all of a block that it keeps from being freed.
    fn share(&self, window: &Window) -> u64 {
        if self.storage.cache.is_on() && !window.is_sliver() { window.block_length() } else { window.length() }
    }
}

fn block_key(window: &Window) -> BlockKey {
    BlockKey { content: window.content, offset: window.block.start }
}

/// The wanted bytes of a block, on their way out. A sliver is copied rather than keep the whole block from being freed.
fn outgoing(block: &Bytes, window: &Window, permit: Permit) -> Result<Bytes> {
    let within = window.bytes.start - window.block.start..window.bytes.end - window.block.start;
    let Some(wanted) = slice(block, &within) else {
        let text = format!("a block of content {} has {} bytes", window.content, block.len());
        return Err(StorageError::new(ErrorKind::Internal, text));
    };
    let bytes = if window.is_sliver() { Bytes::copy_from_slice(&wanted) } else { wanted };
    Ok(Bytes::from_owner(Accounted { bytes, _permit: permit }))
}

/// Bytes with their share of the budget, which comes back when the last slice of them is dropped.
struct Accounted<B> {
    bytes: B,
    _permit: Permit,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Accounted<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}
