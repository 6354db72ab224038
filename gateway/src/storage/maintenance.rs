//! What background work and operators' commands ask of the engine: reaping, expiry, inventory, checking a content.

use std::time::Duration;

use tokio_postgres::types::Oid;
use uuid::Uuid;

use super::content::{self, digest::Digester};
use super::error::{ErrorKind, Result};
use super::index::{inventory, removal};
use super::{Storage, StorageError};
use crate::db::Lane;

pub use super::index::inventory::{ReferringColumn, ScannedContent, Unclaimed};
pub use super::index::removal::{Reaped, RemovalStatus};

/// Pages of large objects destroyed by one transaction of the reaper (128 MiB): unlinking takes time by the page.
const REAPED_PAGES: u64 = 64 << 10;

/// What checking a content's bytes showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentCheck {
    /// Size and MD5 are as recorded.
    Sound,
    /// They are not; the text says how.
    Damaged(String),
    /// It was reaped meanwhile, which is no damage.
    Gone,
}

impl Storage {
    /// Asks the database for a sign of life, and whether reads may begin.
    ///
    /// # Errors
    /// Those of the database; [`ErrorKind::Unavailable`] where the lease has run out.
    pub async fn ping(&self) -> Result<()> {
        if !self.reads.is_leased() {
            return Err(StorageError::new(ErrorKind::Unavailable, "the lease of this gateway has run out"));
        }
        Ok(inventory::ping(&self.db).await?)
    }

    /// One round of the reaper, of at most `batch` contents and about `REAPED_PAGES` pages; `None` where another is at
    /// work.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn reap(&self, batch: u32) -> Result<Option<Reaped>> {
        Ok(removal::reap(&self.db, batch, REAPED_PAGES).await?)
    }

    /// Aborts uploads that saw no part for `age`, at most `batch` of them. Returns how many.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn expire_uploads(&self, age: Duration, batch: u32) -> Result<u64> {
        Ok(removal::expire_uploads(&self.db, age, batch).await?)
    }

    /// What waits for the reaper.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn removal_status(&self) -> Result<RemovalStatus> {
        removal::status(&self.db).await?.ok_or_else(|| ErrorKind::Internal.into())
    }

    /// Makes the pages of destroyed contents reusable. `TRUNCATE off`: giving pages back to the file system would lock
    /// readers out.
    ///
    /// # Errors
    /// Those of the database; the role has to own the database, or be granted MAINTAIN.
    pub async fn vacuum(&self) -> Result<()> {
        self.db.maintain("VACUUM (TRUNCATE off) pg_largeobject").await?;
        Ok(self.db.maintain("VACUUM (TRUNCATE off) lobgate.content, lobgate.removed, lobgate.object").await?)
    }

    /// Name and system identifier of the database.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn database_identity(&self) -> Result<(String, String)> {
        Ok(inventory::identity(&self.db).await?)
    }

    /// Large objects without a content, after an oid.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn unclaimed_large_objects(&self, after: Oid, limit: u32) -> Result<Vec<Unclaimed>> {
        Ok(inventory::unclaimed(&self.db, after, limit).await?)
    }

    /// Columns of other applications that may refer to large objects.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn referring_columns(&self) -> Result<Vec<ReferringColumn>> {
        Ok(inventory::referring_columns(&self.db).await?)
    }

    /// Those of the large objects that a column of `columns` refers to, and the sizes of all.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn examine(
        &self,
        columns: &[ReferringColumn],
        oids: &[Oid],
        sizes_of: &[Oid],
    ) -> Result<(Vec<Oid>, Vec<u64>)> {
        let tx = self.db.begin("examine_large_objects", Lane::Background).await?;
        let referred = inventory::referred_to_by_any(&tx, columns, oids).await?;
        let mut sizes = Vec::with_capacity(sizes_of.len());
        for oid in sizes_of {
            sizes.push(inventory::large_object_size(&tx, *oid).await?);
        }
        Ok((referred, sizes))
    }

    /// Unlinks those of the large objects that still have no content and that no column refers to. Returns how many.
    ///
    /// # Errors
    /// Those of the database; nothing was unlinked then.
    pub async fn unlink_unclaimed(&self, columns: &[ReferringColumn], oids: &[Oid]) -> Result<u64> {
        let tx = self.db.begin("sweep", Lane::Background).await?;
        inventory::lock_sweep(&tx).await?;
        let referred = inventory::referred_to_by_any(&tx, columns, oids).await?;
        let unreferred: Vec<_> = oids.iter().copied().filter(|oid| !referred.contains(oid)).collect();
        let unlinked = inventory::unlink_unclaimed(&tx, &unreferred).await?;
        tx.commit().await?;
        Ok(unlinked)
    }

    /// Contents after an id, in the order of ids.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn scan_contents(&self, after: Uuid, limit: u32) -> Result<Vec<ScannedContent>> {
        Ok(inventory::scan_contents(&self.db, after, limit).await?)
    }

    /// How many contents are stored, and their bytes.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn content_totals(&self) -> Result<(u64, u64)> {
        Ok(inventory::totals(&self.db).await?)
    }

    /// Rows of the companion tables that contradict each other, as sentences.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn contradictions(&self) -> Result<Vec<String>> {
        Ok(inventory::contradictions(&self.db).await?)
    }

    /// Objects whose bytes lie in a content, as `bucket/key`; ten at most.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn objects_of(&self, content: Uuid) -> Result<Vec<String>> {
        Ok(inventory::objects_of(&self.db, content).await?)
    }

    /// Reads a content and compares it with its row. `progress` is told of bytes as they are read.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn check_content(&self, scanned: &ScannedContent, progress: impl Fn(u64) + Send) -> Result<ContentCheck> {
        let Some(md5) = &scanned.md5 else { return Ok(ContentCheck::Sound) };
        if !scanned.present {
            let damage =
                ContentCheck::Damaged(format!("its large object {} does not exist", scanned.loid.unwrap_or(0)));
            return self.unless_gone(scanned.id, damage).await;
        }
        let mut digester = Digester::new(&[]);
        let mut offset = 0;
        while offset < scanned.size {
            let length = self.options.read_window.min(scanned.size - offset);
            match content::read_window(&self.db, scanned.id, offset..offset + length).await {
                Ok(window) => digester.update(window.as_ref()),
                Err(e) if matches!(e.kind(), ErrorKind::ReadInterrupted | ErrorKind::Internal) => {
                    return self.unless_gone(scanned.id, ContentCheck::Damaged(e.to_string())).await;
                }
                Err(e) => return Err(e),
            }
            progress(length);
            offset += length;
        }
        let beyond = content::read_beyond(&self.db, scanned.id, scanned.size).await?;
        let found = digester.finish().md5;
        if beyond {
            return self.unless_gone(scanned.id, ContentCheck::Damaged("it is longer than its row says".into())).await;
        }
        if found.as_slice() != md5.as_slice() {
            let text = format!("its MD5 is {}, its row says {}", hex::encode(found), hex::encode(md5));
            return self.unless_gone(scanned.id, ContentCheck::Damaged(text)).await;
        }
        Ok(ContentCheck::Sound)
    }

    async fn unless_gone(&self, id: Uuid, damage: ContentCheck) -> Result<ContentCheck> {
        let exists = inventory::exists(&self.db, id).await.map_err(StorageError::from)?;
        Ok(if exists { damage } else { ContentCheck::Gone })
    }
}
