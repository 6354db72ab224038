-- Lifecycle rules at work: which bucket is gone through by whom, and what may go of it.

-- One row for each bucket whose rules were ever applied. A gateway claims a bucket for a while and renews the claim with
-- every page it has gone through; one that dies leaves the bucket to the others when its claim runs out.
CREATE TABLE lobgate.lifecycle_run (
    bucket_id     integer PRIMARY KEY REFERENCES lobgate.bucket (id) ON DELETE CASCADE,
    -- the run under way, or the last one
    run           uuid NOT NULL,
    -- the rules it applies, or applied
    document      text NOT NULL,
    started_at    timestamptz NOT NULL,
    finished_at   timestamptz,
    claimed_until timestamptz NOT NULL
);

-- Claims a bucket whose rules are due: they were never applied, not since the last midnight (UTC), when days end, or not
-- since they were changed; or a run ended before its end. No row: nothing is due.
CREATE FUNCTION lobgate.claim_lifecycle(p_run uuid, p_claim interval)
RETURNS TABLE (bucket_id integer, name text, owner text, document text, started_at timestamptz)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_now      timestamptz := clock_timestamp();
    v_midnight timestamptz := date_trunc('day', v_now AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    v_due      record;
BEGIN
    FOR v_due IN
        SELECT b.id, b.name, b.owner, s.document
        FROM lobgate.bucket_setting s
        JOIN lobgate.bucket b ON b.id = s.bucket_id
        LEFT JOIN lobgate.lifecycle_run r ON r.bucket_id = s.bucket_id
        WHERE s.kind = 'lifecycle'
          AND (r.bucket_id IS NULL
               OR r.finished_at IS NULL AND r.claimed_until < v_now
               OR r.finished_at IS NOT NULL AND (r.started_at < v_midnight OR r.document <> s.document))
        ORDER BY r.started_at NULLS FIRST, b.id
    LOOP
        INSERT INTO lobgate.lifecycle_run AS r (bucket_id, run, document, started_at, claimed_until)
        SELECT v_due.id, p_run, v_due.document, v_now, v_now + p_claim
        -- Held, so that it is not deleted in between; one that is gone is passed over.
        FROM lobgate.bucket b WHERE b.id = v_due.id FOR KEY SHARE
        ON CONFLICT (bucket_id) DO UPDATE
            SET run = p_run, document = v_due.document, started_at = v_now, finished_at = NULL, claimed_until = v_now + p_claim
            -- Looked at again under the row's lock: another may have come first.
            WHERE r.claimed_until < v_now OR r.finished_at IS NOT NULL AND r.finished_at < v_now;
        IF FOUND THEN
            RETURN QUERY SELECT v_due.id, v_due.name, v_due.owner, v_due.document, v_now;
            RETURN;
        END IF;
    END LOOP;
END
$$;

-- Renews a claim, or ends its run. False: the run is over, or another's by now, or has lost its bucket or its rules; rules
-- that were changed are due at once.
CREATE FUNCTION lobgate.renew_lifecycle(p_bucket integer, p_run uuid, p_claim interval, p_finished boolean) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_holds boolean := EXISTS (
        SELECT FROM lobgate.bucket_setting s JOIN lobgate.lifecycle_run r ON r.bucket_id = s.bucket_id
        WHERE s.bucket_id = p_bucket AND s.kind = 'lifecycle' AND s.document = r.document);
BEGIN
    UPDATE lobgate.lifecycle_run r SET
        claimed_until = clock_timestamp() + p_claim,
        finished_at = CASE WHEN p_finished OR NOT v_holds THEN clock_timestamp() END
    WHERE r.bucket_id = p_bucket AND r.run = p_run AND r.finished_at IS NULL;
    RETURN FOUND AND v_holds;
END
$$;

-- Deletes versions by the ids of their rows that rules no longer keep, where they still are what the rules meant: versions
-- that a newer one took the place of, or a delete marker that is all that its key has. Locked ones stay. Returns how many
-- went.
CREATE FUNCTION lobgate.expire_versions(p_bucket text, p_keys text[], p_ids bigint[]) RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_latest lobgate.object;
    v_target lobgate.object;
    v_want   record;
    v_gone   integer := 0;
BEGIN
    -- in the order of the keys, as all who lock several do
    FOR v_want IN
        SELECT w.key, w.id FROM unnest(p_keys, p_ids) AS w (key, id) ORDER BY w.key COLLATE "C", w.id
    LOOP
        v_latest := lobgate.lock_latest(v_bucket.id, v_want.key);
        CONTINUE WHEN v_latest.id IS NULL;
        IF v_latest.id = v_want.id THEN
            CONTINUE WHEN NOT v_latest.is_delete_marker OR EXISTS (
                SELECT FROM lobgate.object o WHERE o.bucket_id = v_bucket.id AND o.key = v_want.key AND NOT o.is_latest);
        ELSE
            SELECT o.* INTO v_target FROM lobgate.object o
            WHERE o.id = v_want.id AND o.bucket_id = v_bucket.id AND o.key = v_want.key AND NOT o.is_latest
            FOR UPDATE;
            CONTINUE WHEN NOT FOUND
                OR lobgate.is_locked(v_target.retention_mode, v_target.retain_until, v_target.legal_hold);
        END IF;
        DELETE FROM lobgate.object o WHERE o.id = v_want.id;
        v_gone := v_gone + 1;
    END LOOP;
    RETURN v_gone;
END
$$;
