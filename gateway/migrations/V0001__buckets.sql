-- Buckets. Names compare as bytes (COLLATE "C"), as S3 sorts them.
CREATE TABLE lobgate.bucket (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    owner      text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp())
);

-- Whoever writes into a bucket holds this lock shared to the end of its transaction, whoever deletes a bucket holds it
-- exclusively. It stands in for a foreign key from object to bucket, which would make every writer of a busy bucket
-- lock the same bucket row and so churn multixacts.
CREATE FUNCTION lobgate.bucket_lock_key(p_bucket text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT hashtextextended('lobgate.bucket:' || p_bucket, 0) $$;

-- The id of an existing bucket, which cannot be deleted before this transaction ends. SQLSTATE LG001: no such bucket.
CREATE FUNCTION lobgate.hold_bucket(p_bucket text) RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_id integer;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lobgate.bucket_lock_key(p_bucket));
    -- A statement of its own: its snapshot is taken after the lock was granted.
    SELECT id INTO v_id FROM lobgate.bucket WHERE name = p_bucket;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LG001', MESSAGE = 'no such bucket';
    END IF;
    RETURN v_id;
END
$$;
