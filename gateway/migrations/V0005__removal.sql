-- One row per running gateway (or other long reader, such as lobgate verify). snapshot is older than the locate query
-- of every read that runs there; heartbeat is by this server's clock, the only clock that is ever compared.
CREATE TABLE lobgate.instance (
    id         uuid PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- how long this instance may be silent before it counts as dead: its own setting, others may have another
    lease      interval NOT NULL,
    snapshot   pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
    host       text NOT NULL,
    version    text NOT NULL
);

-- One round of the reaper: destroys at most p_batch contents, and of large objects about p_max_pages pages, that nothing
-- refers to and no reader can have located. (One large object is destroyed whole, whatever its size.)
-- Returns NULL where another reaper is at work.
--   seen     entries of removed that were settled, so that a caller knows whether to go on at once
--   reaped   contents destroyed;  bytes: their size;  pages: pages of large objects freed
--
-- Why no reader sees a hole: a content is destroyed only when (a) nothing refers to it, seen by a snapshot S taken
-- under a lock on its row, (b) every entry of removed for it is visible in the snapshot of every live instance.
-- A reader located the content through a reference. If the reference exists at S, (a) fails. If it was removed by X
-- before S, the entry of X is in removed, and by (b) X is visible in a snapshot no newer than that of the reader's
-- locate query: the reader cannot have seen the reference. A reader whose instance registers after S locates after S.
-- A transaction that begins to share the content needs FOR KEY SHARE on its row (the foreign key): it comes before
-- the row lock, and (a) sees it; or it waits, finds the row gone, fails with 23503, and locates again.
-- A fence (see lobgate.content, created_at) stays for a day, so that a statement that still lingers somewhere between
-- gateway and server cannot find its id free again.
-- A composite's parts enter removed when the composite goes, by the trigger on content_part, and so wait another round.
CREATE FUNCTION lobgate.reap(p_batch integer, p_max_pages bigint)
RETURNS TABLE (seen bigint, reaped bigint, bytes bigint, pages bigint)
LANGUAGE plpgsql
AS $$
DECLARE
    v_entries    bigint[];
    v_candidates uuid[];
    v_locked     uuid[];
    v_doomed     uuid[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('lobgate.reaper', 0)) THEN
        RETURN;
    END IF;
    DELETE FROM lobgate.instance i WHERE i.heartbeat < clock_timestamp() - i.lease;

    SELECT array_agg(e.id), array_agg(DISTINCT e.content_id) INTO v_entries, v_candidates
    FROM (SELECT r.id, r.content_id,
                 sum(CASE WHEN c.loid IS NULL THEN 0 ELSE (c.size + 2047) / 2048 END) OVER (ORDER BY r.id) AS pages,
                 row_number() OVER (ORDER BY r.id) AS nth
          FROM (SELECT w.id, w.content_id FROM lobgate.removed w
                WHERE NOT EXISTS (SELECT 1 FROM lobgate.instance i WHERE NOT pg_visible_in_snapshot(w.xid, i.snapshot))
                  AND NOT EXISTS (SELECT 1 FROM lobgate.content f WHERE f.id = w.content_id
                                  AND f.created_at = '-infinity' AND w.removed_at > clock_timestamp() - interval '1 day')
                ORDER BY w.id LIMIT p_batch) r
          LEFT JOIN lobgate.content c ON c.id = r.content_id) e
    WHERE e.pages <= p_max_pages OR e.nth = 1;
    seen := coalesce(cardinality(v_entries), 0);
    reaped := 0; bytes := 0; pages := 0;
    IF seen = 0 THEN
        RETURN NEXT;
        RETURN;
    END IF;

    SELECT array_agg(l.id) INTO v_locked
    FROM (SELECT c.id FROM lobgate.content c WHERE c.id = ANY (v_candidates) ORDER BY c.id
          FOR UPDATE SKIP LOCKED) l;

    -- A statement of its own, so that S is taken under the locks.
    SELECT array_agg(c.id), coalesce(sum(c.size) FILTER (WHERE num_nonnulls(c.loid, c.inline) > 0), 0),
           coalesce(sum((c.size + 2047) / 2048) FILTER (WHERE c.loid IS NOT NULL), 0)
    INTO v_doomed, bytes, pages
    FROM lobgate.content c
    WHERE c.id = ANY (v_locked)
      AND NOT EXISTS (SELECT 1 FROM lobgate.object o WHERE o.content_id = c.id)
      AND NOT EXISTS (SELECT 1 FROM lobgate.content_part p WHERE p.content_id = c.id)
      AND NOT EXISTS (SELECT 1 FROM lobgate.upload_part p WHERE p.content_id = c.id)
      AND NOT EXISTS (SELECT 1 FROM lobgate.removed r, lobgate.instance i
                      WHERE r.content_id = c.id AND NOT pg_visible_in_snapshot(r.xid, i.snapshot));

    PERFORM lo_unlink(c.loid) FROM lobgate.content c WHERE c.id = ANY (v_doomed) AND c.loid IS NOT NULL;
    DELETE FROM lobgate.content c WHERE c.id = ANY (v_doomed);
    GET DIAGNOSTICS reaped = ROW_COUNT;
    -- Settled: the doomed, those still referred to (their last reference will leave an entry of its own), and those
    -- already gone. Entries whose content was locked by somebody else stay.
    DELETE FROM lobgate.removed r
    WHERE r.content_id = ANY (v_doomed)
       OR (r.id = ANY (v_entries)
           AND (r.content_id = ANY (v_locked)
                OR NOT EXISTS (SELECT 1 FROM lobgate.content c WHERE c.id = r.content_id)));
    GET DIAGNOSTICS seen = ROW_COUNT;
    RETURN NEXT;
END
$$;

-- Entries of removed that bear a transaction id of the future come from another cluster, by dump and restore: they are
-- entered anew, or they would wait until this cluster has used as many ids. Returns how many.
CREATE FUNCTION lobgate.adopt_removed() RETURNS bigint
LANGUAGE sql
AS $$
    WITH adopted AS (
        UPDATE lobgate.removed SET xid = pg_current_xact_id()
        WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) RETURNING 1)
    SELECT count(*) FROM adopted
$$;

-- Row triggers do not see TRUNCATE, and contents would be forgotten by it.
CREATE FUNCTION lobgate.refuse_truncate() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'lobgate.% cannot be truncated: DELETE its rows, so that the reaper learns of their contents', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON lobgate.object EXECUTE FUNCTION lobgate.refuse_truncate();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON lobgate.upload_part EXECUTE FUNCTION lobgate.refuse_truncate();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON lobgate.content_part EXECUTE FUNCTION lobgate.refuse_truncate();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON lobgate.content EXECUTE FUNCTION lobgate.refuse_truncate();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON lobgate.removed EXECUTE FUNCTION lobgate.refuse_truncate();

-- Aborts uploads that saw no part for p_age, and forgets completed ones that old. Returns how many were aborted.
CREATE FUNCTION lobgate.expire_uploads(p_age interval, p_batch integer) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_aborted bigint;
    v_stale   uuid[];
BEGIN
    DELETE FROM lobgate.upload u WHERE u.id IN (
        SELECT d.id FROM lobgate.upload d WHERE d.completed_at < clock_timestamp() - p_age
        LIMIT p_batch FOR UPDATE SKIP LOCKED);
    v_stale := ARRAY (
        SELECT d.id FROM lobgate.upload d
        WHERE d.completed_at IS NULL AND d.initiated_at < clock_timestamp() - p_age
        ORDER BY d.initiated_at LIMIT p_batch FOR UPDATE SKIP LOCKED);
    -- A statement of its own: under the locks no part can be added, and those added before them are seen.
    DELETE FROM lobgate.upload u
    WHERE u.id = ANY (v_stale)
      AND NOT EXISTS (SELECT 1 FROM lobgate.upload_part p
                      WHERE p.upload_id = u.id AND p.last_modified >= clock_timestamp() - p_age);
    GET DIAGNOSTICS v_aborted = ROW_COUNT;
    RETURN v_aborted;
END
$$;
