-- What a runner may do: nine functions, each bound to the run, the fence and the attempt's secret.
-- They run with their owner's rights on a fixed search path. The suffix is their version: a changed
-- function is a new one, so that an old runner image works against a newer schema.
--
-- An answer that is not a success says what is there instead, so that the caller can tell fenced,
-- landed and regressed apart without asking again. ``known`` means that the secret is, or was, the
-- one pinned for the caller's fence; a stranger is told the fence and nothing else.

-- How the caller stands to the run. No row: there is no such run.
CREATE FUNCTION agentrun.standing(p_run_uid text, p_fence bigint, p_hash bytea,
  OUT known boolean, OUT fence bigint, OUT seq bigint, OUT state text, OUT write_id uuid)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  SELECT (r.fence = p_fence AND r.secret_hash = p_hash) IS TRUE
         OR EXISTS (SELECT 1 FROM agentrun.attempt a
                    WHERE a.run_uid = r.run_uid AND a.fence = p_fence AND a.secret_hash = p_hash),
         r.fence, r.seq, r.state, r.write_id
    INTO known, fence, seq, state, write_id
    FROM agentrun.run r WHERE r.run_uid = p_run_uid;
  IF known IS NOT TRUE THEN
    known := false;
    seq := NULL; state := NULL; write_id := NULL;
  END IF;
END
$$;

-- Raises unless the caller owns the run. For functions whose answer is data. A plain read: what
-- they write is harmless when the fence moves a moment later.
CREATE FUNCTION agentrun.demand(p_run_uid text, p_fence bigint, p_hash bytea)
RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s record;
BEGIN
  SELECT * INTO s FROM agentrun.standing(p_run_uid, p_fence, p_hash);
  IF s.fence IS NULL OR s.fence < p_fence THEN
    RAISE EXCEPTION 'the store is behind this attempt' USING ERRCODE = 'AR002';
  ELSIF s.fence > p_fence THEN
    RAISE EXCEPTION 'the fence has moved to %', s.fence USING ERRCODE = 'AR001';
  ELSIF NOT s.known THEN
    RAISE EXCEPTION 'not the secret of this fence' USING ERRCODE = 'AR003';
  ELSIF s.state <> 'Active' THEN
    RAISE EXCEPTION 'the run is %', s.state USING ERRCODE = 'AR004';
  END IF;
END
$$;

-- What a claim of this row comes to; see claim_v1.
CREATE FUNCTION agentrun.claimable(r agentrun.run, p_fence bigint, p_hash bytea, p_holder text,
                                   p_nonce text)
RETURNS text LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE
    WHEN r.run_uid IS NULL OR r.fence < p_fence THEN 'regressed'
    WHEN r.fence > p_fence THEN 'fenced'
    WHEN r.state <> 'Active' THEN 'ended'
    WHEN r.holder IS NULL AND EXISTS (
      SELECT 1 FROM agentrun.attempt_secret s
      WHERE s.run_uid = r.run_uid AND s.fence = p_fence AND s.hash = p_hash) THEN 'claimed'
    WHEN r.holder IS NULL THEN 'denied'
    WHEN r.holder = p_holder AND r.nonce = p_nonce AND r.secret_hash = p_hash THEN 'claimed'
    ELSE 'held' END;
END
$$;

-- Become the holder of a fence. The nonce lets the same process repeat a claim whose answer was
-- lost, and no other (H17); release never clears the holder, so a second claim never succeeds. The
-- claim pins the secret it used and voids the others. Expiry begins here: an unclaimed lease has
-- none (H16).
--
-- answer: claimed | held (another holder) | fenced (fence moved on) | ended (run not Active)
--         | denied (secret not issued for this fence) | regressed (store behind the caller)
CREATE FUNCTION agentrun.claim_v1(
  p_run_uid text, p_fence bigint, p_secret bytea, p_holder text, p_nonce text, p_node text,
  OUT answer text, OUT object_uid text, OUT namespace text, OUT name text, OUT run_id text,
  OUT spec bytea, OUT spec_hash text, OUT attempt integer, OUT fence bigint, OUT seq bigint,
  OUT snapshot_seq bigint, OUT chain bytea, OUT trace_id text, OUT span_id text,
  OUT lease_ttl_ms integer, OUT active_ms bigint, OUT requested text, OUT requested_reason text,
  OUT budget_turns bigint, OUT budget_tokens bigint, OUT budget_cost bigint,
  OUT budget_active_s bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_hash bytea := sha256(p_secret);
  v_now  timestamptz;
  r      agentrun.run;
BEGIN
  -- Asked twice: without a lock first, so that a stranger never holds one on somebody's run, and
  -- then again on the locked row, which nobody else can claim or take meanwhile.
  SELECT * INTO r FROM agentrun.run WHERE run_uid = p_run_uid;
  answer := agentrun.claimable(r, p_fence, v_hash, p_holder, p_nonce);
  IF answer = 'claimed' THEN
    SELECT * INTO r FROM agentrun.run WHERE run_uid = p_run_uid FOR NO KEY UPDATE;
    answer := agentrun.claimable(r, p_fence, v_hash, p_holder, p_nonce);
  END IF;
  v_now := clock_timestamp();
  fence := r.fence;
  IF answer <> 'claimed' THEN
    RETURN;
  END IF;
  UPDATE agentrun.run SET
    holder = p_holder, nonce = p_nonce, secret_hash = v_hash,
    lease_expires_at = v_now + r.lease_ttl_ms * interval '1 millisecond',
    active_since = coalesce(r.active_since, v_now)
  WHERE run_uid = p_run_uid;
  UPDATE agentrun.attempt a SET
    pod_uid = p_holder, node = p_node, claimed_at = coalesce(a.claimed_at, v_now),
    secret_hash = v_hash
  WHERE a.run_uid = p_run_uid AND a.attempt = r.attempt;
  DELETE FROM agentrun.attempt_secret s WHERE s.run_uid = p_run_uid;
  SELECT s.spec INTO spec FROM agentrun.run_spec s WHERE s.run_uid = p_run_uid;
  object_uid := r.object_uid; namespace := r.namespace; name := r.name; run_id := r.run_id;
  spec_hash := r.spec_hash; attempt := r.attempt; seq := r.seq; snapshot_seq := r.snapshot_seq;
  chain := r.chain; trace_id := r.trace_id; span_id := r.span_id; lease_ttl_ms := r.lease_ttl_ms;
  active_ms := r.active_ms; requested := r.requested; requested_reason := r.requested_reason;
  budget_turns := r.budget_turns; budget_tokens := r.budget_tokens;
  budget_cost := r.budget_cost; budget_active_s := r.budget_active_s;
END
$$;

-- Extend the lease. Never touches seq. The answer is the channel by which a runner learns what is
-- wanted of it.
CREATE FUNCTION agentrun.renew_v1(
  p_run_uid text, p_fence bigint, p_secret bytea,
  OUT ok boolean, OUT known boolean, OUT fence bigint, OUT seq bigint, OUT state text,
  OUT write_id uuid, OUT requested text, OUT requested_reason text, OUT budget_turns bigint,
  OUT budget_tokens bigint, OUT budget_cost bigint, OUT budget_active_s bigint,
  OUT lease_ms integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_hash bytea := sha256(p_secret);
BEGIN
  UPDATE agentrun.run AS r
     SET lease_expires_at = clock_timestamp() + r.lease_ttl_ms * interval '1 millisecond'
   WHERE r.run_uid = p_run_uid AND r.fence = p_fence AND r.secret_hash = v_hash
     AND r.state = 'Active'
  RETURNING true, true, r.fence, r.seq, r.state, r.write_id, r.requested, r.requested_reason,
            r.budget_turns, r.budget_tokens, r.budget_cost, r.budget_active_s, r.lease_ttl_ms
       INTO ok, known, fence, seq, state, write_id, requested, requested_reason,
            budget_turns, budget_tokens, budget_cost, budget_active_s, lease_ms;
  IF ok IS NULL THEN
    ok := false;
    SELECT s.known, s.fence, s.seq, s.state, s.write_id INTO known, fence, seq, state, write_id
      FROM agentrun.standing(p_run_uid, p_fence, v_hash) s;
  END IF;
END
$$;

-- Make one boundary durable: the hot path, so plain values and no arrays. The UPDATE of the run row
-- checks fence, seq, secret and state in its own WHERE, and only what it returns is inserted, so a
-- stale owner writes nothing however late its statement arrives. It also extends the lease, adds up
-- the totals, links the chain, and keeps the write id, by which a lost answer is recognised.
-- Progress resets the back-off and the faults at this progress, never the counters.
CREATE FUNCTION agentrun.append_v1(
  p_run_uid text, p_fence bigint, p_secret bytea, p_seq bigint, p_write_id uuid,
  p_kind agentrun.runner_kind, p_ref agentrun.runner_ref, p_codec smallint, p_body bytea,
  p_progress boolean,
  p_turns bigint, p_tool_calls bigint, p_input_tokens bigint, p_output_tokens bigint,
  p_cache_read_tokens bigint, p_cache_write_tokens bigint, p_cost bigint,
  OUT ok boolean, OUT known boolean, OUT fence bigint, OUT seq bigint, OUT state text,
  OUT write_id uuid, OUT requested text, OUT requested_reason text, OUT budget_turns bigint,
  OUT budget_tokens bigint, OUT budget_cost bigint, OUT budget_active_s bigint,
  OUT lease_ms integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_hash    bytea := sha256(p_secret);
  v_now     timestamptz := clock_timestamp();
  v_chain   bytea;
  v_attempt integer;
BEGIN
  UPDATE agentrun.run AS r SET
    seq = r.seq + 1,
    chain = agentrun.link(r.chain, r.seq + 1, 'R', p_kind, p_ref, p_codec, p_body),
    write_id = p_write_id,
    lease_expires_at = v_now + r.lease_ttl_ms * interval '1 millisecond',
    first_commit_at = coalesce(r.first_commit_at, v_now),
    last_commit_at = v_now,
    progress_seq = CASE WHEN p_progress THEN r.seq + 1 ELSE r.progress_seq END,
    faults_at_progress = CASE WHEN p_progress THEN 0 ELSE r.faults_at_progress END,
    backoff_step = CASE WHEN p_progress THEN 0 ELSE r.backoff_step END,
    turns = p_turns, tool_calls = p_tool_calls, input_tokens = p_input_tokens,
    output_tokens = p_output_tokens, cache_read_tokens = p_cache_read_tokens,
    cache_write_tokens = p_cache_write_tokens, cost = p_cost
  WHERE r.run_uid = p_run_uid AND r.fence = p_fence AND r.seq = p_seq
    AND r.secret_hash = v_hash AND r.state = 'Active'
  RETURNING true, true, r.fence, r.seq, r.state, r.write_id, r.requested, r.requested_reason,
            r.budget_turns, r.budget_tokens, r.budget_cost, r.budget_active_s, r.lease_ttl_ms,
            r.chain, r.attempt
       INTO ok, known, fence, seq, state, write_id, requested, requested_reason,
            budget_turns, budget_tokens, budget_cost, budget_active_s, lease_ms,
            v_chain, v_attempt;
  IF ok THEN
    INSERT INTO agentrun.commit
      (seq, fence, at, attempt, codec, run_uid, origin, kind, ref, chain, body)
    VALUES (p_seq + 1, p_fence, v_now, v_attempt, p_codec, p_run_uid, 'R', p_kind, p_ref,
            v_chain, p_body);
  ELSE
    ok := false;
    SELECT s.known, s.fence, s.seq, s.state, s.write_id INTO known, fence, seq, state, write_id
      FROM agentrun.standing(p_run_uid, p_fence, v_hash) s;
  END IF;
END
$$;

-- The same for whatever waited while the last statement was on its way (one row each, all or none),
-- and for a commit that asks people or ends the attempt: then the state is set in the same
-- statement. The row is locked under the same conditions first, because each link of the chain
-- needs the one before it.
--
-- ``p_progress`` is the position in the group of the last commit that counts as progress, 0 = none.
-- ``p_approval_at`` is the position of the commit that asks.
CREATE FUNCTION agentrun.append_group_v1(
  p_run_uid text, p_fence bigint, p_secret bytea, p_seq bigint, p_write_id uuid,
  p_kinds agentrun.runner_kind[], p_refs agentrun.runner_ref[], p_codecs smallint[],
  p_bodies bytea[], p_progress integer,
  p_turns bigint, p_tool_calls bigint, p_input_tokens bigint, p_output_tokens bigint,
  p_cache_read_tokens bigint, p_cache_write_tokens bigint, p_cost bigint,
  p_state text, p_reason text, p_message text, p_preview text, p_wait_ms bigint,
  p_approval_ids text[], p_approval_at integer[], p_scopes text[], p_boundaries text[],
  p_ordinals integer[], p_contents bytea[], p_content_hashes text[], p_why text[],
  OUT ok boolean, OUT known boolean, OUT fence bigint, OUT seq bigint, OUT state text,
  OUT write_id uuid, OUT requested text, OUT requested_reason text, OUT budget_turns bigint,
  OUT budget_tokens bigint, OUT budget_cost bigint, OUT budget_active_s bigint,
  OUT lease_ms integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  n        integer := cardinality(p_bodies);
  v_hash   bytea := sha256(p_secret);
  v_now    timestamptz := clock_timestamp();
  v_chains bytea[];
  r        agentrun.run;
BEGIN
  IF n = 0 THEN
    RAISE EXCEPTION 'nothing to append' USING ERRCODE = '22023';
  END IF;
  IF p_state NOT IN ('Suspended', 'Succeeded', 'Failed', 'Cancelled', 'Rejected') THEN
    RAISE EXCEPTION 'a runner cannot set the state %', p_state USING ERRCODE = '22023';
  END IF;

  SELECT * INTO r FROM agentrun.run x
   WHERE x.run_uid = p_run_uid AND x.fence = p_fence AND x.seq = p_seq
     AND x.secret_hash = v_hash AND x.state = 'Active'
     FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    ok := false;
    SELECT s.known, s.fence, s.seq, s.state, s.write_id INTO known, fence, seq, state, write_id
      FROM agentrun.standing(p_run_uid, p_fence, v_hash) s;
    RETURN;
  END IF;

  FOR i IN 1..n LOOP
    r.chain := agentrun.link(r.chain, p_seq + i, 'R', p_kinds[i], p_refs[i], p_codecs[i],
                             p_bodies[i]);
    v_chains[i] := r.chain;
  END LOOP;
  UPDATE agentrun.run AS u SET
    seq = p_seq + n,
    chain = r.chain,
    write_id = p_write_id,
    lease_expires_at = v_now + r.lease_ttl_ms * interval '1 millisecond',
    first_commit_at = coalesce(r.first_commit_at, v_now),
    last_commit_at = v_now,
    progress_seq = CASE WHEN p_progress > 0 THEN p_seq + p_progress ELSE r.progress_seq END,
    faults_at_progress = CASE WHEN p_progress > 0 THEN 0 ELSE r.faults_at_progress END,
    backoff_step = CASE WHEN p_progress > 0 THEN 0 ELSE r.backoff_step END,
    turns = p_turns, tool_calls = p_tool_calls, input_tokens = p_input_tokens,
    output_tokens = p_output_tokens, cache_read_tokens = p_cache_read_tokens,
    cache_write_tokens = p_cache_write_tokens, cost = p_cost,
    state = coalesce(p_state, r.state)
  WHERE u.run_uid = p_run_uid;
  INSERT INTO agentrun.commit
    (seq, fence, at, attempt, codec, run_uid, origin, kind, ref, chain, body)
  SELECT p_seq + c.i, p_fence, v_now, r.attempt, c.codec, p_run_uid, 'R', c.kind, c.ref,
         v_chains[c.i], c.body
    FROM unnest(p_kinds, p_refs, p_codecs, p_bodies) WITH ORDINALITY
           AS c (kind, ref, codec, body, i);

  INSERT INTO agentrun.approval
    (id, run_uid, scope, boundary, ordinal, content, content_hash, reason, requested_seq)
  SELECT a.id, p_run_uid, a.scope, a.boundary, a.ordinal, a.content, a.content_hash, a.why,
         p_seq + a.at
    FROM unnest(p_approval_ids, p_approval_at, p_scopes, p_boundaries, p_ordinals, p_contents,
                p_content_hashes, p_why)
           AS a (id, at, scope, boundary, ordinal, content, content_hash, why);
  IF p_state IS NOT NULL THEN
    PERFORM agentrun.settle(p_run_uid, p_state, coalesce(p_reason, ''), coalesce(p_message, ''),
                            coalesce(p_preview, ''), p_wait_ms, v_now);
  END IF;

  ok := true; known := true; fence := p_fence; seq := p_seq + n;
  state := coalesce(p_state, r.state); write_id := p_write_id; requested := r.requested;
  requested_reason := r.requested_reason; budget_turns := r.budget_turns;
  budget_tokens := r.budget_tokens; budget_cost := r.budget_cost;
  budget_active_s := r.budget_active_s; lease_ms := r.lease_ttl_ms;
END
$$;

-- The rest of what an attempt's own last commit does, once per attempt: reason and times, the end
-- of the attempt (nobody's fault), and for an outcome the questions nobody has to answer any more.
-- No wait is longer than a year: times beyond the year 9999 are none that a program could read.
CREATE FUNCTION agentrun.settle(p_run_uid text, p_state text, p_reason text, p_message text,
                                p_preview text, p_wait_ms bigint, p_now timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  r agentrun.run;
BEGIN
  UPDATE agentrun.run AS u SET
    reason = left(p_reason, 128), message = left(p_message, 4096), preview = left(p_preview, 4096),
    retry_at = CASE WHEN p_state = 'Suspended' AND p_wait_ms > 0
                 THEN p_now + least(p_wait_ms, 31536000000) * interval '1 millisecond' END,
    suspended_at = CASE WHEN p_state = 'Suspended' THEN p_now END,
    finished_at = CASE WHEN p_state <> 'Suspended' THEN p_now END,
    active_ms = u.active_ms
      + coalesce((1000 * extract(epoch FROM p_now - u.active_since))::bigint, 0),
    active_since = NULL
  WHERE u.run_uid = p_run_uid
  RETURNING * INTO r;
  UPDATE agentrun.attempt a SET
    ended_at = p_now, cause = p_state, fault = 'None', last_seq = r.seq
  WHERE a.run_uid = p_run_uid AND a.attempt = r.attempt AND a.ended_at IS NULL;
  IF p_state <> 'Suspended' THEN
    UPDATE agentrun.approval a SET state = 'Closed'
     WHERE a.run_uid = p_run_uid AND a.state = 'Pending';
  END IF;
END
$$;

-- Write the folded state at ``p_seq``; false: there is one as new already, so repeating it is
-- harmless. The snapshot before it is kept for repair, older ones go.
CREATE FUNCTION agentrun.snapshot_v1(p_run_uid text, p_fence bigint, p_secret bytea, p_seq bigint,
                                     p_version integer, p_codec smallint, p_body bytea)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_hash   bytea := sha256(p_secret);
  v_before bigint;
BEGIN
  PERFORM agentrun.demand(p_run_uid, p_fence, v_hash);
  SELECT r.snapshot_seq INTO v_before FROM agentrun.run r WHERE r.run_uid = p_run_uid;
  UPDATE agentrun.run AS r SET snapshot_seq = p_seq
   WHERE r.run_uid = p_run_uid AND r.fence = p_fence AND r.secret_hash = v_hash
     AND r.state = 'Active' AND r.seq >= p_seq AND r.snapshot_seq < p_seq;
  IF NOT FOUND THEN
    PERFORM agentrun.demand(p_run_uid, p_fence, v_hash);
    IF p_seq > v_before THEN
      RAISE EXCEPTION 'no commit % to take a snapshot of', p_seq USING ERRCODE = '22023';
    END IF;
    RETURN false;
  END IF;
  INSERT INTO agentrun.snapshot (run_uid, seq, version, codec, chain, sha256, body)
  SELECT p_run_uid, p_seq, p_version, p_codec, c.chain,
         sha256(convert_to(p_seq::text || '|' || p_version::text || '|' || p_codec::text || '|',
                           'UTF8') || c.chain || p_body),
         p_body
    FROM agentrun.commit c WHERE c.run_uid = p_run_uid AND c.seq = p_seq;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'no commit % to take a snapshot of', p_seq USING ERRCODE = '22023';
  END IF;
  DELETE FROM agentrun.snapshot s WHERE s.run_uid = p_run_uid AND s.seq < v_before;
  RETURN true;
END
$$;

-- Everything needed to fold the state, in one query however long the run: the head of the run row,
-- its snapshot, the commits between the two. Commits are never changed, so the three parts fit
-- together without a transaction around them. The answer is collected before it is sent: work_mem
-- keeps all but the longest out of temporary files.
CREATE FUNCTION agentrun.restore_v1(p_run_uid text, p_fence bigint, p_secret bytea)
RETURNS TABLE (part text, seq bigint, version integer, origin text, fence bigint, attempt integer,
               at timestamptz, kind text, ref text, codec smallint, chain bytea, sha256 bytea,
               body bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET work_mem = '32MB' AS $$
#variable_conflict use_column
DECLARE
  r agentrun.run;
BEGIN
  PERFORM agentrun.demand(p_run_uid, p_fence, pg_catalog.sha256(p_secret));
  SELECT * INTO r FROM agentrun.run WHERE run_uid = p_run_uid;
  part := 'head'; seq := r.seq; fence := r.fence; attempt := r.attempt; chain := r.chain;
  version := r.snapshot_seq;
  RETURN NEXT;
  IF r.snapshot_seq > 0 THEN
    RETURN QUERY
      SELECT 'snapshot'::text, s.seq, s.version, NULL::text, NULL::bigint, NULL::integer, s.at,
             NULL::text, NULL::text, s.codec, s.chain, s.sha256, s.body
        FROM agentrun.snapshot s WHERE s.run_uid = p_run_uid AND s.seq = r.snapshot_seq;
  END IF;
  RETURN QUERY
    SELECT 'commit'::text, c.seq, NULL::integer, c.origin, c.fence, c.attempt, c.at,
           c.kind::text, c.ref::text, c.codec, c.chain, NULL::bytea, c.body::bytea
      FROM agentrun.commit c
     WHERE c.run_uid = p_run_uid AND c.seq > r.snapshot_seq AND c.seq <= r.seq
     ORDER BY c.seq;
END
$$;

-- Put one value by content. Already there (from a dead attempt): nothing to do (H9).
CREATE FUNCTION agentrun.put_blob_v1(p_run_uid text, p_fence bigint, p_secret bytea, p_body bytea)
RETURNS bytea LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_sha bytea := sha256(p_body);
BEGIN
  PERFORM agentrun.demand(p_run_uid, p_fence, sha256(p_secret));
  INSERT INTO agentrun.blob (run_uid, sha256, body) VALUES (p_run_uid, v_sha, p_body)
  ON CONFLICT DO NOTHING;
  RETURN v_sha;
END
$$;

-- Values by content; what is not there is missing from the answer.
CREATE FUNCTION agentrun.get_blobs_v1(p_run_uid text, p_fence bigint, p_secret bytea,
                                      p_hashes bytea[])
RETURNS TABLE (sha256 bytea, body bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM agentrun.demand(p_run_uid, p_fence, pg_catalog.sha256(p_secret));
  RETURN QUERY SELECT b.sha256, b.body FROM agentrun.blob b
                WHERE b.run_uid = p_run_uid AND b.sha256 = ANY (p_hashes);
END
$$;

-- Let the next attempt start without waiting for the lease. The holder stays, so nobody can claim
-- this fence again (H17).
CREATE FUNCTION agentrun.release_v1(p_run_uid text, p_fence bigint, p_secret bytea)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_hash bytea := sha256(p_secret);
BEGIN
  PERFORM agentrun.demand(p_run_uid, p_fence, v_hash);
  UPDATE agentrun.run AS r SET lease_expires_at = clock_timestamp()
   WHERE r.run_uid = p_run_uid AND r.fence = p_fence AND r.secret_hash = v_hash
     AND r.state = 'Active';
  RETURN FOUND;
END
$$;

GRANT USAGE ON SCHEMA agentrun TO agentrun_runner;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentrun FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
  agentrun.claim_v1, agentrun.renew_v1, agentrun.append_v1, agentrun.append_group_v1,
  agentrun.snapshot_v1,  agentrun.restore_v1, agentrun.put_blob_v1, agentrun.get_blobs_v1, agentrun.release_v1
TO agentrun_runner;

-- What PUBLIC has by default helps a hostile tenant of the database: temporary tables fill its
-- disk, and a schema everyone may create in can shadow names.
DO $$
BEGIN
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO agentrun_runner', current_database());
  REVOKE ALL ON SCHEMA public FROM PUBLIC;
EXCEPTION WHEN insufficient_privilege OR invalid_schema_name THEN
  RAISE WARNING 'PUBLIC keeps its rights on this database: the migration does not own it';
END
$$;

-- Anybody may create large objects by default, which fill a disk as well. Only a superuser can take
-- that away; on a managed server it stays.
DO $$
BEGIN
  REVOKE EXECUTE ON FUNCTION
    pg_catalog.lo_create(oid), pg_catalog.lo_creat(integer),
    pg_catalog.lo_from_bytea(oid, bytea)
  FROM PUBLIC;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE 'PUBLIC may create large objects: the migration is not a superuser';
END
$$;
