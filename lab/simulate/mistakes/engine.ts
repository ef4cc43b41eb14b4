import { mistakesIn, type Mistake } from './mistake.js';

/** Begin, the attempts of this process, and what a shutdown waits for. */
const ENGINE = [
  ...mistakesIn(
    'lib/core/engine/begin-protocol.ts',
    ['begin is sent without notAfter', 'notAfter: this.', 'notAfter: 0 * this.'],
    [
      'a begin that was late is not sent again by the new time',
      "if (reply.kind === 'late') {",
      "if (reply.kind === 'late' && this.isStopping()) {",
    ],
    [
      'a late begin is sent again as if no other one of its process had acquired the record',
      "if (attempts.has(recordKey, recovers, now, begun)) action = 'deny';",
      '',
    ],
    [
      'a begin without a reply is not released',
      "await events.counted('release', () =>\n        store.release({ recordKey, token, fence: UNKNOWN_FENCE }, command),\n      );",
      'void command;',
    ],
    [
      'a begin that has been answered still counts as in progress',
      'attempts.remove(begun);',
      'void begun;',
    ],
    [
      'a record that another process has taken over is said to be of unknown outcome',
      'return action === requested',
      'return requested !== undefined',
    ],
    [
      'an abandoned record is taken over though onTakeover is reject',
      "return options.lease.onTakeover === 'reject' ? 'deny' : 'takeover';",
      "return options.lease.onTakeover === 'run' ? 'takeover' : 'takeover';",
    ],
    [
      'a replay of a failure counts as that of a success',
      "return { kind: 'replay', state, outcome, trace };",
      "return { kind: 'replay', state: 'completed', outcome, trace };",
    ],
    [
      'a shutting down process still begins',
      "if (this.isStopping()) return rejectDecision('shutting_down');",
      "if (attempts.shutdown.isOver) return rejectDecision('shutting_down');",
      'An attempt that such a begin acquires is released before its operation starts.',
    ],
    [
      'a takeover after a release is not reported',
      'if (attempt.isTakeover) {',
      "if (reply.kind === 'takeover') {",
    ],
    [
      'an attempt starts though the shutdown began while the store was asked',
      'if (trouble === undefined && !this.isStopping()) return',
      'if (trouble === undefined) return',
    ],
    [
      'an attempt whose lease is not confirmed runs',
      'if (trouble === undefined && !this.isStopping()) return',
      'if (!this.isStopping()) return',
    ],
  ),
  ...mistakesIn(
    'lib/core/engine/idempotency-engine.ts',
    [
      'a begin without a reply is released before the operation runs without protection',
      'services.attempts.keep(attempt, now);',
      'services.attempts.keep(attempt, now);\n    void this.protocol.releaseUnowned(request, token);',
    ],
    [
      'an operation runs without protection though that was not asked for',
      "      request.options.storeErrors.whenUnavailable === 'execute' &&\n",
      '',
    ],
    [
      'a begin that has ended is never left',
      '    attempts.leave();\n',
      "    if (decision.kind !== 'replay') attempts.leave();\n",
    ],
    ['the shutdown does not wake those that wait', 'this.duplicateWaiters.wake();', ''],
  ),
  ...mistakesIn(
    'lib/core/engine/local-attempts.ts',
    [
      'a slow reply of an earlier attempt lets a process take over its own one',
      'own.fence >= fence',
      'own.fence === fence',
    ],
    [
      'a process takes over the attempt that it is itself running',
      'return this.isOwned(recordKey, hasRecovery, undefined, now, except);',
      'return hasRecovery && this.isOwned(recordKey, hasRecovery, undefined, now, except);',
    ],
    [
      'a process never takes over its own attempt, not even after the hard deadline',
      'const counts = own !== except && now < own.deadlineAt && !(hasRecovery && own.isSettling);',
      'const counts = own !== except && !(hasRecovery && own.isSettling);',
    ],
    [
      'two begins of a process on a dead record defer to each other',
      'const isUnknown = own.fence === UNKNOWN_FENCE && now >= own.leaseOverAt;',
      'const isUnknown = own.fence === UNKNOWN_FENCE;',
      'A begin that overlaps no other one takes the record over.',
    ],
    [
      'the drain ends while attempts are running',
      'return this.running.size > 0 || this.inProgress > 0;',
      'return this.inProgress > 0;',
    ],
    [
      'the drain ends while begins are in progress',
      'return this.running.size > 0 || this.inProgress > 0;',
      'return this.running.size > 0;',
      'An operation does not start any more, and a key that such a begin acquires is free again with its lease.',
    ],
    [
      'the older of two attempts of a key is forgotten with the newer one',
      'else this.byKey.set(recordKey, next);',
      'else this.byKey.delete(recordKey);',
    ],
  ),
];

const KEEPER = mistakesIn(
  'lib/core/engine/lease-keeper.ts',
  [
    'the lease counts from the reply to begin',
    'if (lease !== undefined) this.renewed(startedAt);',
    'if (lease !== undefined) this.renewed(this.services.clock.now());',
  ],
  [
    'an extended lease counts from the reply to the heartbeat',
    'this.accept(await this.extend(lease), sentAt);',
    'const reply = await this.extend(lease);\n      this.accept(reply, this.services.clock.now());',
  ],
  [
    'a confirmed lease counts from the reply',
    '    this.renewed(sentAt);\n    this.arm();\n    return undefined;',
    '    this.renewed(clock.now());\n    this.arm();\n    return undefined;',
  ],
  [
    'an operation starts though begin took more than its lease',
    'now - sentAt >= this.options.lease.duration * UNCONFIRMED_PART',
    'now - sentAt >= this.options.lease.maxExecution * UNCONFIRMED_PART',
  ],
  [
    'an operation starts though the confirmation took more than its lease',
    'const isLate = this.isUnconfirmed(sentAt, now) || now >= this.hardDeadlineAt;',
    'const isLate = now >= this.hardDeadlineAt;',
  ],
  [
    'an operation starts after its hard deadline',
    'const isLate = this.isUnconfirmed(sentAt, now) || now >= this.hardDeadlineAt;',
    'const isLate = this.isUnconfirmed(sentAt, now);',
  ],
  ['no heartbeat follows the first one', '      this.inFlight = false;\n', ''],
  [
    'a heartbeat is sent once in a lease',
    'this.heartbeatAt = sentAt + durationMs / HEARTBEATS_PER_LEASE;',
    'this.heartbeatAt = sentAt + durationMs;',
  ],
  [
    'a lease that is over is not reported',
    '    this.abort(reason);\n    this.observer.leaseLost(reason);',
    "    if (reason === 'expired') return;\n    this.abort(reason);\n    this.observer.leaseLost(reason);",
  ],
  [
    'a lease that another attempt has is not reported',
    'if (!this.stopped) this.lost(kind);\n        this.stop();',
    'this.stop();',
  ],
  [
    'the loss of a lease does not abort the signal',
    '    this.abort(reason);\n    this.observer.leaseLost(reason);',
    '    this.observer.leaseLost(reason);',
  ],
  [
    'a signal that is read after the loss is not aborted',
    'if (this.loss !== undefined) this.abort(this.loss);',
    '',
  ],
  ['the hard deadline does not abort the signal', "      this.lost('max_execution');\n", ''],
  [
    'an attempt that completed before its heartbeat arrived is said to be lost',
    "        // The attempt's own complete or release was executed, though its reply may not have arrived yet.\n        this.stop();",
    "        this.lost('lost');\n        this.stop();",
  ],
  ['the heartbeat of an attempt that has ended goes on', 'this.stopped = true;', ''],
);

const WRITER = [
  ...mistakesIn(
    'lib/core/engine/outcome-writer.ts',
    [
      'an outcome whose record has vanished is not restored',
      "whenGone: 'restore',",
      "whenGone: 'report',",
    ],
    [
      'a complete without a reply is not repeated',
      'if (leftMs <= 0 || isShutdownOver(writer)) return undefined;',
      "if (leftMs <= 0 || isShutdownOver(writer) || command === 'complete') return undefined;",
    ],
    [
      'a complete without a reply counts as done',
      'if (leftMs <= 0 || isShutdownOver(writer)) return undefined;',
      "if (leftMs <= 0 || isShutdownOver(writer)) return { kind: 'already' } as Reply;",
    ],
    [
      'an attempt that has lost its record does not wait for the one that has it',
      "const isLocked = reply?.kind === 'lost' && reply.state === 'in_progress';",
      "const isLocked = reply?.kind === 'lost' && reply.state !== 'in_progress';",
    ],
  ),
  ...mistakesIn(
    'lib/core/engine/attempt.ts',
    [
      'the response leaves before complete is confirmed',
      'return sendComplete(attempt, final, giveUpAt, now).then((reply) =>\n      reply === undefined ? this.delayed(final) : attempt.conclude(reply, final),\n    );',
      'void sendComplete(attempt, final, giveUpAt, now).then((reply) =>\n      reply === undefined ? this.delayed(final) : attempt.conclude(reply, final),\n    );\n    return Promise.resolve(OWN);',
    ],
    [
      'the heartbeat ends when the outcome is sent for the first time',
      '    attempts.settling(attempt);\n    const now = clock.now();',
      '    attempts.settling(attempt);\n    attempt.keeper.stop();\n    const now = clock.now();',
    ],
    [
      'the caller of a superseded attempt gets its own outcome',
      ": { kind: 'other', state, outcome };",
      ': OWN;',
    ],
    [
      'a superseded attempt is not reported',
      "        this.emit(isSuperseded ? 'superseded' : 'outcome_diverged');\n",
      '',
    ],
    [
      'the caller of a lost attempt gets its own outcome',
      'return this.afterLoss(reply, final, when);',
      "this.end('diverged');\n        return OWN;",
    ],
    [
      'a key that was reused meanwhile is answered with the own outcome',
      "return state === 'released' ? LOST : { kind: 'unknown' };",
      'return LOST;',
    ],
    [
      'a record that had to be restored is not reported',
      "      case 'restored':\n        this.recordLost();",
      "      case 'restored':",
    ],
    [
      'an outcome that is not saved is responded though that was not asked for',
      "return whenNotSaved === 'error'",
      "return whenNotSaved !== 'error' && whenNotSaved !== 'respond'",
    ],
    [
      'an outcome that was not saved in time is given up',
      '    void sendComplete(attempt, final, attempt.keeper.hardDeadlineAt).then((late) =>\n      attempt.concludeLate(late, final),\n    );',
      "    attempt.end('unsaved');",
    ],
    [
      'a success that could not be saved is released',
      "    this.emit('save_failed');\n    this.end('unsaved');",
      "    this.emit('save_failed');\n    void this.release();",
    ],
    [
      'every second attempt counts as a takeover',
      'this.isTakeover = takeovers > 0;',
      'this.isTakeover = attempt > 1;',
    ],
    [
      'a record that has vanished under its attempt is not reported',
      "if (reason === 'gone') this.recordLost();",
      '',
      'The last command of the attempt finds no record either, and reports it.',
    ],
    [
      'an attempt that has ended is kept',
      'services.attempts.ended(this);',
      "if (lastly !== 'released') services.attempts.ended(this);",
    ],
    [
      'an operation is not notified that it runs without protection',
      "this.isProtected = ending.protection !== 'none';",
      'this.isProtected = true;',
    ],
    [
      'the outcome of an unprotected run is not stored',
      '    void completeOnceFree(attempt, final, giveUpAt).then((late) =>\n      attempt.concludeLate(late, final),\n    );',
      "    void giveUpAt;\n    attempt.end('unsaved');",
    ],
  ),
];

export const ENGINE_MISTAKES: readonly Mistake[] = [...ENGINE, ...KEEPER, ...WRITER];
