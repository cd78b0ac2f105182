-- What the operator may do. Every function names the object and the fence that the operator saw,
-- locks the run row, and then, in later statements that see everything committed before the lock,
-- checks the reason again (H12, H60, H64). No row back: the facts have moved, observe again.
-- Terminal rows match nothing. Whatever sets a state raises the fence in the same statement (H61).
-- None waits long for a lock: a tenant may hold its own rows for as long as it likes, and a few of
-- them would otherwise take every connection of the operator.

-- The run row as rows.py knows it, without the spec and the lists: what the progress poll reads.
CREATE VIEW agentrun.run_row AS
SELECT r.run_uid, r.object_uid, r.installation, r.namespace_uid, r.namespace, r.name, r.run_id,
       r.spec_hash, r.generation, r.state, r.reason, r.message, r.attempt, r.fence, r.holder,
       r.lease_ttl_ms, r.lease_expires_at, r.seq, r.snapshot_seq, r.requested,
       r.requested_reason, r.requested_by, r.budget_turns, r.budget_tokens, r.budget_cost,
       r.budget_active_s, r.app_faults, r.infra_faults, r.faults_at_progress, r.backoff_step,
       r.retry_at, r.progress_seq, r.trace_id, r.span_id, r.turns, r.tool_calls, r.input_tokens,
       r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.cost, r.active_ms,
       r.active_since, r.preview, r.created_at, r.first_commit_at, r.last_commit_at,
       r.suspended_at, r.finished_at, clock_timestamp() AS db_now
  FROM agentrun.run r;

-- All about one run: its spec, the questions still open and its last ten attempts.
CREATE VIEW agentrun.run_facts AS
SELECT r.*, s.spec,
       (SELECT json_agg(json_build_object(
                 'id', a.id, 'run_uid', a.run_uid, 'scope', a.scope, 'boundary', a.boundary,
                 'ordinal', a.ordinal, 'content', encode(a.content, 'base64'),
                 'content_hash', a.content_hash, 'reason', a.reason, 'state', a.state,
                 'object_uid', a.object_uid, 'requested_at', a.requested_at,
                 'decided_by', a.decided_by, 'decided_at', a.decided_at,
                 'consumed_attempt', a.consumed_attempt) ORDER BY a.requested_seq, a.id)
          FROM agentrun.approval a
         WHERE a.run_uid = r.run_uid AND a.state = 'Pending') AS pending_approvals,
       (SELECT json_agg(json_build_object(
                 'attempt', t.attempt, 'fence', t.fence, 'pod', t.pod, 'pod_uid', t.pod_uid,
                 'node', t.node, 'trace_id', t.trace_id, 'span_id', t.span_id,
                 'continued_from_attempt', t.continued_from_attempt,
                 'continued_from_seq', t.continued_from_seq, 'started_at', t.started_at,
                 'claimed_at', t.claimed_at, 'ended_at', t.ended_at, 'cause', t.cause,
                 'fault', t.fault, 'exit_code', t.exit_code, 'last_seq', t.last_seq)
                 ORDER BY t.attempt)
          FROM (SELECT * FROM agentrun.attempt x WHERE x.run_uid = r.run_uid
                 ORDER BY x.attempt DESC LIMIT 10) t) AS attempts
  FROM agentrun.run_row r JOIN agentrun.run_spec s ON s.run_uid = r.run_uid;

-- Lock the row that the operator saw, or nothing. A new holder, state, object or fence is not it.
CREATE FUNCTION agentrun.seen(p_run_uid text, p_object_uid text, p_fence bigint, p_state text,
                              p_holder text)
RETURNS agentrun.run LANGUAGE sql VOLATILE AS $$
  SELECT r FROM agentrun.run r
   WHERE r.run_uid = p_run_uid AND r.object_uid = p_object_uid AND r.fence = p_fence
     AND r.state = p_state AND r.holder IS NOT DISTINCT FROM p_holder
     AND r.state IN ('Pending', 'Active', 'Suspended')
   FOR NO KEY UPDATE
$$;

-- Append a commit of the operator to the locked row. The write id stays the runner's: by it a
-- runner recognises its own commit although the operator has moved on (H69).
CREATE FUNCTION agentrun.log(r agentrun.run, p_kind text, p_ref text, p_codec smallint,
                             p_body bytea)
RETURNS agentrun.run LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  r.seq := r.seq + 1;
  r.chain := agentrun.link(r.chain, r.seq, 'O', p_kind, p_ref, p_codec, p_body);
  INSERT INTO agentrun.commit
    (seq, fence, at, attempt, codec, run_uid, origin, kind, ref, chain, body)
  VALUES (r.seq, r.fence, clock_timestamp(), r.attempt, p_codec, r.run_uid, 'O', p_kind, p_ref,
          r.chain, p_body);
  RETURN r;
END
$$;

-- Whether the current attempt of the locked row has not been ended yet.
CREATE FUNCTION agentrun.attempt_open(r agentrun.run)
RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT EXISTS (SELECT 1 FROM agentrun.attempt a
                  WHERE a.run_uid = r.run_uid AND a.attempt = r.attempt AND a.ended_at IS NULL)
$$;

-- End the current attempt, count its fault, add up its active time. Ending it twice counts once.
-- A dead owner was active until now, or until its lease ran out.
CREATE FUNCTION agentrun.end_attempt(r agentrun.run, p_cause text, p_fault text,
                                     p_exit_code integer)
RETURNS agentrun.run LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  UPDATE agentrun.attempt a SET
    ended_at = v_now, cause = p_cause, fault = p_fault, exit_code = p_exit_code, last_seq = r.seq
  WHERE a.run_uid = r.run_uid AND a.attempt = r.attempt AND a.ended_at IS NULL;
  IF FOUND AND p_fault = 'App' THEN
    r.app_faults := r.app_faults + 1;
    r.faults_at_progress := r.faults_at_progress + 1;
    r.backoff_step := r.backoff_step + 1;
  ELSIF FOUND AND p_fault = 'Infra' THEN
    r.infra_faults := r.infra_faults + 1;
  END IF;
  IF r.active_since IS NOT NULL THEN
    r.active_ms := r.active_ms + greatest(0, (1000 * extract(epoch FROM
      least(v_now, r.lease_expires_at) - r.active_since))::bigint);
    r.active_since := NULL;
  END IF;
  DELETE FROM agentrun.attempt_secret s WHERE s.run_uid = r.run_uid;
  RETURN r;
END
$$;

-- Take the fence from whoever has it.
CREATE FUNCTION agentrun.raise_fence(r agentrun.run)
RETURNS agentrun.run LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  r.fence := r.fence + 1;
  r.holder := NULL;
  r.nonce := NULL;
  r.secret_hash := NULL;
  r.lease_expires_at := NULL;
  RETURN r;
END
$$;

-- Write the changed row back. Only columns that the operator changes.
CREATE FUNCTION agentrun.put(r agentrun.run)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE agentrun.run SET
    state = r.state, reason = left(r.reason, 128), message = left(r.message, 4096),
    attempt = r.attempt, fence = r.fence, holder = r.holder, nonce = r.nonce,
    secret_hash = r.secret_hash, lease_expires_at = r.lease_expires_at, trace_id = r.trace_id,
    span_id = r.span_id, app_faults = r.app_faults, infra_faults = r.infra_faults,
    faults_at_progress = r.faults_at_progress, backoff_step = r.backoff_step,
    retry_at = r.retry_at, active_ms = r.active_ms, active_since = r.active_since,
    suspended_at = r.suspended_at, finished_at = r.finished_at, seq = r.seq, chain = r.chain,
    requested = r.requested, requested_reason = r.requested_reason,
    requested_by = r.requested_by, generation = r.generation, budget_turns = r.budget_turns,
    budget_tokens = r.budget_tokens, budget_cost = r.budget_cost,
    budget_active_s = r.budget_active_s
  WHERE run_uid = r.run_uid;
  RETURN QUERY SELECT * FROM agentrun.run_facts f WHERE f.run_uid = r.run_uid;
END
$$;

-- Whether a suspended run has nothing left to wait for: no question open, the wait over, and the
-- budget that stopped it raised (H68: else mint, suspend, mint).
CREATE FUNCTION agentrun.resumable(r agentrun.run)
RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT r.requested = 'run'
     AND (r.retry_at IS NULL OR r.retry_at <= clock_timestamp())
     AND NOT EXISTS (SELECT 1 FROM agentrun.approval a
                      WHERE a.run_uid = r.run_uid AND a.state = 'Pending')
     AND (r.reason <> 'BudgetExceeded'
          OR ((r.budget_turns IS NULL OR r.turns < r.budget_turns)
              AND (r.budget_tokens IS NULL
                   OR r.input_tokens + r.output_tokens + r.cache_read_tokens
                      + r.cache_write_tokens < r.budget_tokens)
              AND (r.budget_cost IS NULL OR r.cost < r.budget_cost)
              AND (r.budget_active_s IS NULL OR r.active_ms < 1000 * r.budget_active_s)))
$$;

-- The next attempt of the locked row: fence and attempt + 1, unclaimed, one secret, and the commit
-- that says so. The lease begins with the claim (H16).
CREATE FUNCTION agentrun.next_attempt(r agentrun.run, p_secret_hash bytea, p_trace_id text,
                                      p_span_id text, p_pod text, p_codec smallint, p_body bytea)
RETURNS agentrun.run LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_last bigint;
BEGIN
  SELECT a.last_seq INTO v_last FROM agentrun.attempt a
   WHERE a.run_uid = r.run_uid AND a.attempt = r.attempt;
  INSERT INTO agentrun.attempt
    (run_uid, attempt, fence, pod, trace_id, span_id, continued_from_attempt, continued_from_seq)
  VALUES (r.run_uid, r.attempt + 1, r.fence + 1, p_pod, p_trace_id, p_span_id,
          nullif(r.attempt, 0), v_last);
  r := agentrun.raise_fence(r);
  r.attempt := r.attempt + 1;
  r.state := 'Active';
  r.reason := '';
  r.message := '';
  r.retry_at := NULL;
  r.suspended_at := NULL;
  r.trace_id := p_trace_id;
  r.span_id := p_span_id;
  DELETE FROM agentrun.attempt_secret s WHERE s.run_uid = r.run_uid;
  INSERT INTO agentrun.attempt_secret (run_uid, fence, hash)
  VALUES (r.run_uid, r.fence, p_secret_hash);
  RETURN agentrun.log(r, 'attempt/start', NULL, p_codec, p_body);
END
$$;

-- The row of an object, made if it is not there. Never overwrites: the spec that is in it is the
-- spec for ever.
CREATE FUNCTION agentrun.open_run_v1(
  p_run_uid text, p_object_uid text, p_installation text, p_namespace_uid text, p_namespace text,
  p_name text, p_run_id text, p_spec bytea, p_spec_hash text, p_generation bigint,
  p_lease_ttl_ms integer, p_requested text, p_requested_reason text, p_budget_turns bigint,
  p_budget_tokens bigint, p_budget_cost bigint, p_budget_active_s bigint)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
BEGIN
  INSERT INTO agentrun.run_spec (run_uid, spec) VALUES (p_run_uid, p_spec) ON CONFLICT DO NOTHING;
  INSERT INTO agentrun.run
    (run_uid, object_uid, installation, namespace_uid, namespace, name, run_id, spec_hash,
     generation, lease_ttl_ms, requested, requested_reason, budget_turns, budget_tokens,
     budget_cost, budget_active_s, chain)
  VALUES (p_run_uid, p_object_uid, p_installation, p_namespace_uid, p_namespace, p_name, p_run_id,
          p_spec_hash, p_generation, p_lease_ttl_ms, p_requested, p_requested_reason,
          p_budget_turns, p_budget_tokens, p_budget_cost, p_budget_active_s,
          sha256(convert_to('agentrun|' || p_run_uid, 'UTF8')))
  ON CONFLICT DO NOTHING;
  RETURN QUERY SELECT * FROM agentrun.run_facts f WHERE f.run_uid = p_run_uid;
END
$$;

-- What is wanted of the run: one function of the whole spec, for this object and a generation not
-- older than the row's, so that an operator with an old spec undoes nothing (H63). Cancel latches.
CREATE FUNCTION agentrun.request_v1(
  p_run_uid text, p_object_uid text, p_generation bigint, p_requested text, p_reason text,
  p_by text, p_budget_turns bigint, p_budget_tokens bigint, p_budget_cost bigint,
  p_budget_active_s bigint)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
DECLARE
  r agentrun.run;
BEGIN
  SELECT * INTO r FROM agentrun.run x
   WHERE x.run_uid = p_run_uid AND x.object_uid = p_object_uid AND x.generation <= p_generation
     AND x.state IN ('Pending', 'Active', 'Suspended')
   FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF r.requested <> 'cancel' THEN
    r.requested := p_requested;
    r.requested_reason := p_reason;
    r.requested_by := p_by;
  END IF;
  r.generation := p_generation;
  r.budget_turns := p_budget_turns;
  r.budget_tokens := p_budget_tokens;
  r.budget_cost := p_budget_cost;
  r.budget_active_s := p_budget_active_s;
  RETURN QUERY SELECT * FROM agentrun.put(r);
END
$$;

-- Mint the next attempt. The reason is checked on the locked row:
--   start          Pending
--   lease-expired  Active, claimed, the lease still over by the database's clock
--   ended          Active, the attempt open: its container's end was observed, claimed or not
--   gone           Active and claimed: a live GET says 404 or another UID
--   terminating    Active and unclaimed: its pod has a deletionTimestamp
--   charged        Active, the attempt ended before, the back-off over
--   resumed        Suspended with nothing left to wait for
-- and always: this object, this fence, this seq (the commit's body names it), requested = run.
CREATE FUNCTION agentrun.mint_v1(
  p_run_uid text, p_object_uid text, p_fence bigint, p_seq bigint, p_state text, p_holder text,
  p_because text, p_secret_hash bytea, p_trace_id text, p_span_id text, p_pod text,
  p_codec smallint, p_body bytea, p_cause text, p_fault text, p_exit_code integer)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
DECLARE
  r      agentrun.run;
  v_open boolean;
BEGIN
  r := agentrun.seen(p_run_uid, p_object_uid, p_fence, p_state, p_holder);
  IF r.run_uid IS NULL OR r.seq <> p_seq OR r.requested <> 'run' THEN
    RETURN;
  END IF;
  v_open := agentrun.attempt_open(r);
  IF (CASE p_because
        WHEN 'start' THEN r.state = 'Pending'
        WHEN 'lease-expired' THEN r.state = 'Active' AND v_open AND r.holder IS NOT NULL
                                  AND r.lease_expires_at <= clock_timestamp()
        WHEN 'ended' THEN r.state = 'Active' AND v_open
        WHEN 'gone' THEN r.state = 'Active' AND v_open AND r.holder IS NOT NULL
        WHEN 'terminating' THEN r.state = 'Active' AND v_open AND r.holder IS NULL
        WHEN 'charged' THEN r.state = 'Active' AND NOT v_open
                            AND (r.retry_at IS NULL OR r.retry_at <= clock_timestamp())
        WHEN 'resumed' THEN r.state = 'Suspended' AND agentrun.resumable(r)
      END) IS NOT TRUE THEN
    RETURN;
  END IF;
  IF v_open THEN
    r := agentrun.end_attempt(r, coalesce(p_cause, p_because), coalesce(p_fault, 'None'),
                              p_exit_code);
  END IF;
  r := agentrun.next_attempt(r, p_secret_hash, p_trace_id, p_span_id, p_pod, p_codec, p_body);
  RETURN QUERY SELECT * FROM agentrun.put(r);
END
$$;

-- One more secret for the current fence: its pod was never created, because the operator died in
-- between or because another one is about to create it (H25, H65). Whichever pod claims first
-- wins, the other is told that the fence is held.
CREATE FUNCTION agentrun.add_secret_v1(
  p_run_uid text, p_object_uid text, p_fence bigint, p_state text, p_secret_hash bytea)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
DECLARE
  r agentrun.run;
BEGIN
  r := agentrun.seen(p_run_uid, p_object_uid, p_fence, p_state, NULL);
  IF r.run_uid IS NULL OR r.state <> 'Active' OR r.requested <> 'run'
     OR NOT agentrun.attempt_open(r) THEN
    RETURN;
  END IF;
  INSERT INTO agentrun.attempt_secret (run_uid, fence, hash)
  VALUES (r.run_uid, r.fence, p_secret_hash) ON CONFLICT DO NOTHING;
  RETURN QUERY SELECT * FROM agentrun.run_facts f WHERE f.run_uid = p_run_uid;
END
$$;

-- Record how the attempt ended and whose fault it was; the mint follows when the back-off is over.
-- The fence stays: an end is no change of ownership, and a commit of the dead pod that was still
-- on the wire is as good as any.
CREATE FUNCTION agentrun.charge_v1(
  p_run_uid text, p_object_uid text, p_fence bigint, p_seq bigint, p_state text, p_holder text,
  p_cause text, p_fault text, p_exit_code integer, p_backoff_ms bigint)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
DECLARE
  r agentrun.run;
BEGIN
  r := agentrun.seen(p_run_uid, p_object_uid, p_fence, p_state, p_holder);
  IF r.run_uid IS NULL OR r.state <> 'Active' OR r.seq <> p_seq
     OR NOT agentrun.attempt_open(r)
     OR (p_cause = 'LeaseExpired' AND (r.lease_expires_at <= clock_timestamp()) IS NOT TRUE) THEN
    RETURN;
  END IF;
  r := agentrun.end_attempt(r, p_cause, p_fault, p_exit_code);
  r.retry_at := clock_timestamp() + p_backoff_ms * interval '1 millisecond';
  RETURN QUERY SELECT * FROM agentrun.put(r);
END
$$;

-- Close a run or its attempt by the operator's own word: what finish, suspend and revoke share.
CREATE FUNCTION agentrun.close(r agentrun.run, p_state text, p_reason text, p_message text,
                               p_cause text, p_fault text, p_exit_code integer)
RETURNS agentrun.run LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  r := agentrun.end_attempt(r, coalesce(p_cause, p_state), coalesce(p_fault, 'None'),
                            p_exit_code);
  r := agentrun.raise_fence(r);
  r.state := p_state;
  r.reason := p_reason;
  r.message := p_message;
  r.retry_at := NULL;
  IF p_state = 'Suspended' THEN
    r.suspended_at := clock_timestamp();
  ELSE
    r.finished_at := clock_timestamp();
    UPDATE agentrun.approval a SET state = 'Closed'
     WHERE a.run_uid = r.run_uid AND a.state = 'Pending';
  END IF;
  RETURN r;
END
$$;

-- The operator's own outcome. Its reason is checked again: Cancelled needs requested = cancel, an
-- end by lease needs the lease still expired, and anything but a cancel needs the run where it was
-- seen (a commit in between may have ended it, or moved it on). A cancelled run may go on
-- committing until the fence takes its pen: it is not waited for.
CREATE FUNCTION agentrun.finish_v1(
  p_run_uid text, p_object_uid text, p_fence bigint, p_seq bigint, p_state text, p_holder text,
  p_outcome text, p_reason text, p_message text, p_codec smallint, p_body bytea, p_cause text,
  p_fault text, p_exit_code integer)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
DECLARE
  r agentrun.run;
BEGIN
  IF p_outcome NOT IN ('Succeeded', 'Failed', 'Cancelled', 'Rejected') THEN
    RAISE EXCEPTION '% is not an outcome', p_outcome USING ERRCODE = '22023';
  END IF;
  r := agentrun.seen(p_run_uid, p_object_uid, p_fence, p_state, p_holder);
  IF r.run_uid IS NULL
     OR (r.seq <> p_seq AND r.requested <> 'cancel')
     OR (p_outcome = 'Cancelled' AND r.requested <> 'cancel')
     OR (p_cause = 'LeaseExpired' AND (r.lease_expires_at <= clock_timestamp()) IS NOT TRUE) THEN
    RETURN;
  END IF;
  r := agentrun.close(r, p_outcome, p_reason, p_message, p_cause, p_fault, p_exit_code);
  r := agentrun.log(r, 'run/end', NULL, p_codec, p_body);
  RETURN QUERY SELECT * FROM agentrun.put(r);
END
$$;

-- Suspended by the operator, because the pod did not settle or is dead. Only while that is wanted.
CREATE FUNCTION agentrun.suspend_v1(
  p_run_uid text, p_object_uid text, p_fence bigint, p_state text, p_holder text, p_reason text,
  p_message text, p_codec smallint, p_body bytea, p_cause text, p_fault text, p_exit_code integer)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
DECLARE
  r agentrun.run;
BEGIN
  r := agentrun.seen(p_run_uid, p_object_uid, p_fence, p_state, p_holder);
  IF r.run_uid IS NULL OR r.state <> 'Active' OR r.requested <> 'suspend'
     OR (p_cause = 'LeaseExpired' AND (r.lease_expires_at <= clock_timestamp()) IS NOT TRUE) THEN
    RETURN;
  END IF;
  r := agentrun.close(r, 'Suspended', p_reason, p_message, p_cause, p_fault, p_exit_code);
  r := agentrun.log(r, 'run/suspend', NULL, p_codec, p_body);
  RETURN QUERY SELECT * FROM agentrun.put(r);
END
$$;

-- The object is gone: nobody may write any more. Only for this object (H64). No commit: a revoked
-- run has no outcome of its own.
CREATE FUNCTION agentrun.revoke_v1(p_run_uid text, p_object_uid text, p_reason text)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
DECLARE
  r agentrun.run;
BEGIN
  SELECT * INTO r FROM agentrun.run x
   WHERE x.run_uid = p_run_uid AND x.object_uid = p_object_uid
     AND x.state IN ('Pending', 'Active', 'Suspended')
   FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  r := agentrun.close(r, 'Revoked', p_reason, '', NULL, NULL, NULL);
  RETURN QUERY SELECT * FROM agentrun.put(r);
END
$$;

-- Remember which object stands for a question, by compare-and-set (H71).
CREATE FUNCTION agentrun.bind_approval_v1(p_run_uid text, p_id text, p_object_uid text,
                                          p_seen_object_uid text)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
BEGIN
  UPDATE agentrun.approval a SET object_uid = p_object_uid
   WHERE a.run_uid = p_run_uid AND a.id = p_id AND a.state = 'Pending'
     AND a.object_uid IS NOT DISTINCT FROM p_seen_object_uid;
  RETURN FOUND;
END
$$;

-- Consume a decision. The run row is locked first, and only then, in later statements, is it asked
-- what is pending: two decisions at once each see the other (H12). Only in Suspended, so that no
-- sibling call is at work (H13); nobody's after a cancel; a decision counts only for the object
-- and the content it was made on ('Stale' is the answer to other content). Mints if nothing is
-- left to wait for; suspended by its user, the run stays so (H26).
CREATE FUNCTION agentrun.decide_v1(
  p_run_uid text, p_object_uid text, p_fence bigint, p_id text, p_approval_object_uid text,
  p_decision text, p_decided_by text, p_content_hash text, p_codec smallint, p_body bytea,
  p_secret_hash bytea, p_trace_id text, p_span_id text, p_pod text, p_new_codec smallint,
  p_new_body bytea)
RETURNS SETOF agentrun.run_facts LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' AS $$
DECLARE
  r agentrun.run;
BEGIN
  SELECT * INTO r FROM agentrun.run x
   WHERE x.run_uid = p_run_uid AND x.object_uid = p_object_uid AND x.fence = p_fence
     AND x.state = 'Suspended' AND x.requested <> 'cancel'
   FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  UPDATE agentrun.approval a SET
    state = CASE p_decision WHEN 'Approve' THEN 'Approved' WHEN 'Deny' THEN 'Denied'
                            WHEN 'Stale' THEN 'Stale' ELSE 'Answered' END,
    decided_by = p_decided_by, decided_at = clock_timestamp(), consumed_attempt = r.attempt + 1
  WHERE a.id = p_id AND a.run_uid = p_run_uid AND a.state = 'Pending'
    AND a.object_uid = p_approval_object_uid
    AND (a.content_hash = p_content_hash OR p_decision = 'Stale');
  IF NOT FOUND THEN
    RETURN;
  END IF;
  r := agentrun.log(r, 'approval/decision', 'decision:' || p_id, p_codec, p_body);
  IF p_secret_hash IS NOT NULL AND agentrun.resumable(r) THEN
    r := agentrun.next_attempt(r, p_secret_hash, p_trace_id, p_span_id, p_pod, p_new_codec,
                               p_new_body);
  END IF;
  RETURN QUERY SELECT * FROM agentrun.put(r);
END
$$;

-- Forget secrets that nobody may use any more: older fences, and the current one once claimed.
CREATE FUNCTION agentrun.purge_secrets_v1(p_run_uid text)
RETURNS void LANGUAGE sql VOLATILE
SET lock_timeout = '2s' AS $$
  DELETE FROM agentrun.attempt_secret s USING agentrun.run r
   WHERE s.run_uid = p_run_uid AND r.run_uid = p_run_uid
     AND (s.fence < r.fence OR r.holder IS NOT NULL OR r.state <> 'Active')
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA agentrun FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA agentrun FROM PUBLIC;
