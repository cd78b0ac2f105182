-- The record of runs. Keyed by run UID, never by name: a deleted and re-created run shares nothing
-- with its predecessor. No foreign keys (mass cascades are slow; what must go together is written
-- by one statement), no triggers, no jsonb (it rejects NUL and lone surrogates and reorders keys).

-- Runners of all namespaces are members of this group. It may execute a handful of functions and
-- touch no table. Roles belong to the whole server, so it may be there already.
DO $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = 'agentrun_runner') THEN
    CREATE ROLE agentrun_runner NOLOGIN;
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL;  -- another migration of the same server made it in between
END
$$;

-- What values may be. Domains and not table checks: those are parsed anew for every statement, which
-- a boundary would feel. Kind and ref cannot hold the separator of the chain's input.
CREATE DOMAIN agentrun.run_state AS text COLLATE "C" CHECK (
  VALUE IN ('Pending', 'Active', 'Suspended', 'Succeeded', 'Failed', 'Cancelled', 'Rejected',
            'Revoked'));
CREATE DOMAIN agentrun.wish AS text COLLATE "C" CHECK (VALUE IN ('run', 'suspend', 'cancel'));
CREATE DOMAIN agentrun.kind AS text COLLATE "C" CHECK (VALUE ~ '^[a-z][a-z0-9_/-]{0,63}$');
CREATE DOMAIN agentrun.ref AS text COLLATE "C" CHECK (
  octet_length(VALUE) BETWEEN 1 AND 1024 AND VALUE NOT LIKE '%|%');
CREATE DOMAIN agentrun.commit_body AS bytea CHECK (octet_length(VALUE) <= 16777216);
-- A runner cannot speak for the operator, whatever its image does (H47).
CREATE DOMAIN agentrun.runner_kind AS agentrun.kind CHECK (
  VALUE NOT IN ('run/start', 'attempt/start', 'attempt/end', 'approval/decision'));
CREATE DOMAIN agentrun.runner_ref AS agentrun.ref CHECK (VALUE NOT LIKE 'decision:%');

-- One row per run: who owns it, how far it is, what is wanted of it. Columns that change at every
-- boundary come last, so that the WAL record of a boundary holds only them. Fillfactor 50 and no
-- index on any of them keep those updates heap-only (HOT). The spec lives elsewhere, because an
-- update copies the whole row.
CREATE TABLE agentrun.run (
  run_uid           text COLLATE "C" PRIMARY KEY,
  object_uid        text COLLATE "C" NOT NULL,
  installation      text COLLATE "C" NOT NULL,
  namespace_uid     text NOT NULL,
  namespace         text NOT NULL,
  name              text NOT NULL,
  run_id            text NOT NULL,
  spec_hash         text NOT NULL,
  lease_ttl_ms      integer NOT NULL,
  created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  generation        bigint NOT NULL,
  state             agentrun.run_state NOT NULL DEFAULT 'Pending',
  reason            text NOT NULL DEFAULT '',
  message           text NOT NULL DEFAULT '',
  preview           text NOT NULL DEFAULT '',
  requested         agentrun.wish NOT NULL,
  requested_reason  text NOT NULL DEFAULT '',
  requested_by      text NOT NULL DEFAULT '',
  budget_turns      bigint,
  budget_tokens     bigint,
  budget_cost       bigint,
  budget_active_s   bigint,
  attempt           integer NOT NULL DEFAULT 0,
  fence             bigint NOT NULL DEFAULT 0,
  holder            text COLLATE "C",
  nonce             text COLLATE "C",
  secret_hash       bytea,
  trace_id          text NOT NULL DEFAULT '',
  span_id           text NOT NULL DEFAULT '',
  app_faults        integer NOT NULL DEFAULT 0,
  infra_faults      integer NOT NULL DEFAULT 0,
  retry_at          timestamptz,
  active_ms         bigint NOT NULL DEFAULT 0,
  active_since      timestamptz,
  first_commit_at   timestamptz,
  suspended_at      timestamptz,
  finished_at       timestamptz,
  snapshot_seq      bigint NOT NULL DEFAULT 0,
  faults_at_progress integer NOT NULL DEFAULT 0,
  backoff_step      integer NOT NULL DEFAULT 0,
  write_id          uuid,
  chain             bytea NOT NULL,
  seq               bigint NOT NULL DEFAULT 0,
  progress_seq      bigint NOT NULL DEFAULT 0,
  lease_expires_at  timestamptz,
  last_commit_at    timestamptz,
  turns             bigint NOT NULL DEFAULT 0,
  tool_calls        bigint NOT NULL DEFAULT 0,
  input_tokens      bigint NOT NULL DEFAULT 0,
  output_tokens     bigint NOT NULL DEFAULT 0,
  cache_read_tokens bigint NOT NULL DEFAULT 0,
  cache_write_tokens bigint NOT NULL DEFAULT 0,
  cost              bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- The progress poll reads live runs only and the sweep those that are not over; what they cost does
-- not grow with finished ones.
CREATE INDEX run_unfinished ON agentrun.run (installation, state)
  WHERE state IN ('Pending', 'Active', 'Suspended');

-- What the first mint captured of the object: the spec for ever. Identities are checked here, once.
CREATE TABLE agentrun.run_spec (
  run_uid text COLLATE "C" PRIMARY KEY CHECK (run_uid ~ '^[A-Za-z0-9_.:-]{1,64}$'),
  spec    bytea NOT NULL CHECK (octet_length(spec) <= 4194304)
);

-- The log. One row per boundary, numbered without gaps, never updated. Bodies are exact bytes and
-- already compressed. Origin is O or R, set by the functions and never by a caller.
CREATE TABLE agentrun.commit (
  seq     bigint NOT NULL,
  fence   bigint NOT NULL,
  at      timestamptz NOT NULL,
  attempt integer NOT NULL,
  codec   smallint NOT NULL,
  run_uid text COLLATE "C" NOT NULL,
  origin  text COLLATE "C" NOT NULL,
  kind    agentrun.kind NOT NULL,
  ref     agentrun.ref,
  chain   bytea NOT NULL,
  body    agentrun.commit_body NOT NULL,
  PRIMARY KEY (run_uid, seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE agentrun.commit ALTER COLUMN body SET STORAGE EXTERNAL;

-- A second result of one call, or a second consumption of one decision, is impossible here.
CREATE UNIQUE INDEX commit_ref ON agentrun.commit (run_uid, ref) WHERE ref IS NOT NULL;

-- Folded states, self-contained. ``sha256`` covers seq, version, codec, chain and body.
CREATE TABLE agentrun.snapshot (
  run_uid text COLLATE "C" NOT NULL,
  seq     bigint NOT NULL,
  at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  version integer NOT NULL,
  codec   smallint NOT NULL,
  chain   bytea NOT NULL,
  sha256  bytea NOT NULL,
  body    bytea NOT NULL CHECK (octet_length(body) <= 536870912),
  PRIMARY KEY (run_uid, seq)
);
ALTER TABLE agentrun.snapshot ALTER COLUMN body SET STORAGE EXTERNAL;

-- Large values by content. Written before the commit that names them, never collected while the
-- run is not terminal (H9).
CREATE TABLE agentrun.blob (
  run_uid text COLLATE "C" NOT NULL,
  sha256  bytea NOT NULL,
  at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  body    bytea NOT NULL CHECK (octet_length(body) <= 134217728),
  PRIMARY KEY (run_uid, sha256)
);
ALTER TABLE agentrun.blob ALTER COLUMN body SET STORAGE EXTERNAL;

-- Who worked on a run. Trace ids are made at mint, so that an attempt that never claimed can be
-- linked to. ``secret_hash`` is the secret that the claim pinned.
CREATE TABLE agentrun.attempt (
  run_uid    text COLLATE "C" NOT NULL,
  attempt    integer NOT NULL,
  fence      bigint NOT NULL,
  pod        text NOT NULL,
  pod_uid    text COLLATE "C",
  node       text,
  trace_id   text NOT NULL,
  span_id    text NOT NULL,
  continued_from_attempt integer,
  continued_from_seq     bigint,
  secret_hash bytea,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  claimed_at timestamptz,
  ended_at   timestamptz,
  cause      text,
  fault      text,
  exit_code  integer,
  last_seq   bigint,
  PRIMARY KEY (run_uid, attempt)
);

-- Hashes of the secrets that may claim the current fence; the claim pins one and voids the rest.
CREATE TABLE agentrun.attempt_secret (
  run_uid text COLLATE "C" NOT NULL,
  fence   bigint NOT NULL,
  hash    bytea NOT NULL CHECK (octet_length(hash) = 32),
  PRIMARY KEY (run_uid, fence, hash)
);

-- Questions to people, written in the statement that commits the request. The runner names them, so
-- a name counts within its run only: nobody can take one that another run will need. What no Approval
-- could show is refused here, where the runner hears of it, and not by the operator for ever after.
CREATE TABLE agentrun.approval (
  id               text COLLATE "C" NOT NULL CHECK (octet_length(id) <= 128),
  run_uid          text COLLATE "C" NOT NULL,
  scope            text COLLATE "C" NOT NULL
                   CHECK (scope IN ('Tool', 'Plan', 'Round', 'Task', 'Outcome', 'Question')),
  boundary         text NOT NULL CHECK (length(boundary) BETWEEN 1 AND 512),
  ordinal          integer NOT NULL,
  content          bytea NOT NULL CHECK (octet_length(content) <= 16777216),
  content_hash     text COLLATE "C" NOT NULL CHECK (content_hash ~ '^[0-9a-f]{64}$'),
  reason           text NOT NULL DEFAULT '',
  state            text COLLATE "C" NOT NULL DEFAULT 'Pending'
                   CHECK (state IN ('Pending', 'Approved', 'Denied', 'Answered', 'Expired',
                                    'Stale', 'Closed')),
  object_uid       text COLLATE "C",
  requested_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  requested_seq    bigint NOT NULL,
  decided_by       text,
  decided_at       timestamptz,
  consumed_attempt integer,
  PRIMARY KEY (run_uid, id)
);
CREATE INDEX approval_pending ON agentrun.approval (run_uid) WHERE state = 'Pending';

-- One link of the hash chain. run/chain.py has the same formula; a test compares them.
CREATE FUNCTION agentrun.link(p_previous bytea, p_seq bigint, p_origin text, p_kind text,
                              p_ref text, p_codec smallint, p_body bytea)
RETURNS bytea LANGUAGE sql STABLE
RETURN pg_catalog.sha256(
  p_previous
  || pg_catalog.convert_to(
       p_seq::text || '|' || p_origin || '|' || p_kind || '|' || coalesce(p_ref, '') || '|'
       || p_codec::text || '|', 'UTF8')
  || p_body);
