-- Removal at scale: references that go in great numbers, and a reaper that does not look at what it has to leave.
--
-- lobgate.list_entries and lobgate.prefix_end (V0006) stay for gateways of the version before, which may run beside newer
-- ones; listings are statements of the gateway now.

-- The reaper's order.
CREATE INDEX removed_xid ON lobgate.removed (xid, id);

-- As before (V0005, where it is argued why no reader sees a hole), but a round costs what it can reap, not what waits:
-- a snapshot sees no transaction from its xmax on, so entries from the least xmax of all instances on are left where
-- they are, at the end of the index. Of those before it, only what transactions removed that were under way when a
-- snapshot was taken is looked at in vain, and fences of the last day.
CREATE OR REPLACE FUNCTION lobgate.reap(p_batch integer, p_max_pages bigint)
RETURNS TABLE (seen bigint, reaped bigint, bytes bigint, pages bigint)
LANGUAGE plpgsql
-- Plans are kept, and one made while removed is nearly empty would read and sort all of it when it no longer is. What is
-- switched off counts as very costly, which would have the server compile every plan that cannot do without it.
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    -- beyond every transaction id where no instance is registered
    v_bound      xid8;
    v_entries    bigint[];
    v_candidates uuid[];
    v_locked     uuid[];
    v_doomed     uuid[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('lobgate.reaper', 0)) THEN
        RETURN;
    END IF;
    DELETE FROM lobgate.instance i WHERE i.heartbeat < clock_timestamp() - i.lease;
    SELECT pg_snapshot_xmax(i.snapshot) INTO v_bound FROM lobgate.instance i ORDER BY 1 LIMIT 1;
    v_bound := coalesce(v_bound, '18446744073709551615');

    SELECT array_agg(e.id), array_agg(DISTINCT e.content_id) INTO v_entries, v_candidates
    FROM (SELECT r.id, r.content_id,
                 sum(CASE WHEN c.loid IS NULL THEN 0 ELSE (c.size + 2047) / 2048 END) OVER (ORDER BY r.xid, r.id) AS pages,
                 row_number() OVER (ORDER BY r.xid, r.id) AS nth
          FROM (SELECT w.id, w.xid, w.content_id FROM lobgate.removed w
                WHERE w.xid < v_bound
                  AND NOT EXISTS (SELECT 1 FROM lobgate.instance i WHERE NOT pg_visible_in_snapshot(w.xid, i.snapshot))
                  AND NOT EXISTS (SELECT 1 FROM lobgate.content f WHERE f.id = w.content_id
                                  AND f.created_at = '-infinity' AND w.removed_at > clock_timestamp() - interval '1 day')
                ORDER BY w.xid, w.id LIMIT p_batch) r
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

-- As content_reference_removed, for all references that a statement deletes at once.
CREATE FUNCTION lobgate.content_references_removed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO lobgate.removed (content_id) SELECT g.content_id FROM gone g WHERE g.content_id IS NOT NULL;
    RETURN NULL;
END
$$;

DROP TRIGGER content_part_removed ON lobgate.content_part;
CREATE TRIGGER content_part_removed AFTER DELETE ON lobgate.content_part
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION lobgate.content_references_removed();
DROP TRIGGER object_removed ON lobgate.object;
CREATE TRIGGER object_removed AFTER DELETE ON lobgate.object
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION lobgate.content_references_removed();
DROP TRIGGER upload_part_removed ON lobgate.upload_part;
CREATE TRIGGER upload_part_removed AFTER DELETE ON lobgate.upload_part
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION lobgate.content_references_removed();

-- As before (V0003), but keys without conditions are deleted all at once.
CREATE OR REPLACE FUNCTION lobgate.delete_objects(
    p_bucket text, p_keys text[], p_if_match text[], p_if_size bigint[], p_if_last_modified timestamptz[]
) RETURNS TABLE (ordinal integer, outcome text)
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket integer := lobgate.hold_bucket(p_bucket);
    v_live   record;
    v_want   record;
    v_ids    bigint[];
BEGIN
    IF num_nonnulls(VARIADIC p_if_match) + num_nonnulls(VARIADIC p_if_size)
       + num_nonnulls(VARIADIC p_if_last_modified) = 0 THEN
        v_ids := ARRAY (
            SELECT o.id FROM lobgate.object o
            WHERE o.bucket_id = v_bucket AND o.key = ANY (p_keys) AND o.is_latest AND NOT o.is_delete_marker
            ORDER BY o.key FOR UPDATE);
        DELETE FROM lobgate.object o WHERE o.id = ANY (v_ids);
        RETURN QUERY SELECT n, NULL::text FROM generate_series(1, cardinality(p_keys)) n;
        RETURN;
    END IF;
    FOR v_want IN
        SELECT w.key, w.if_match, w.if_size, w.if_last_modified, w.ord
        FROM unnest(p_keys, p_if_match, p_if_size, p_if_last_modified)
             WITH ORDINALITY AS w (key, if_match, if_size, if_last_modified, ord)
        ORDER BY w.key COLLATE "C", w.ord
    LOOP
        ordinal := v_want.ord;
        outcome := NULL;
        SELECT o.id, o.etag, o.size, o.last_modified INTO v_live FROM lobgate.object o
        WHERE o.bucket_id = v_bucket AND o.key = v_want.key AND o.is_latest AND NOT o.is_delete_marker
        FOR UPDATE;
        IF NOT FOUND THEN
            IF num_nonnulls(v_want.if_match, v_want.if_size, v_want.if_last_modified) > 0 THEN
                outcome := 'LG002';
            END IF;
        ELSIF NOT coalesce(lobgate.etag_in(v_live.etag, string_to_array(v_want.if_match, ',')), true)
              OR v_live.size IS DISTINCT FROM coalesce(v_want.if_size, v_live.size)
              OR date_trunc('second', v_live.last_modified)
                 IS DISTINCT FROM date_trunc('second', coalesce(v_want.if_last_modified, v_live.last_modified)) THEN
            outcome := 'LG003';
        ELSE
            DELETE FROM lobgate.object o WHERE o.id = v_live.id;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
