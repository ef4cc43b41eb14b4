import { mistakesIn, type Mistake } from './mistake.js';

const SETTLEMENT = mistakesIn(
  'lib/core/engine/settlement.ts',
  [
    'a success whose response became a failure is released',
    'return isKept || isSuccess ? kept(!isKept) : releaseOnceIdle(facts);',
    'return isKept ? kept() : releaseOnceIdle(facts);',
  ],
  [
    'a success whose response became a failure is not reported',
    'return isKept || isSuccess ? kept(!isKept) : releaseOnceIdle(facts);',
    'return isKept || isSuccess ? kept() : releaseOnceIdle(facts);',
  ],
  [
    'a record is released while its handler is running',
    "if (facts.isActive) return { state: { phase: 'releasing', facts }, effect: PASS };\n  return settled",
    'return settled',
  ],
  [
    'a record whose response never comes is never settled',
    "    case 'graceOver':\n      return graceOver(state, rules);",
    "    case 'graceOver':\n      return { state };",
  ],
  [
    'a record is released when its client leaves',
    'return awaitResponse(reported(state, { ...facts, graceMs }).state);',
    "return state.phase === 'running'\n        ? settled(facts, { kind: 'release' })\n        : awaitResponse(reported(state, { ...facts, graceMs }).state);",
  ],
  [
    'a failure before the handler was entered is kept',
    'const mayBeKept = facts.isEntered && !end.isRetryable;',
    'const mayBeKept = !end.isRetryable;',
  ],
  [
    'a response whose source broke is kept as a whole',
    'return reported(state, { ...facts, isSourceBroken: true });',
    'return { state };',
  ],
  [
    'a response that is larger than the buffer is kept as a whole',
    'return responseComplete(state, signal.status, false, rules);',
    'return responseComplete(state, signal.status, true, rules);',
    'The buffer hands no response to the execution with this signal, so that there is none to store.',
  ],
  [
    'a kept failure is stored as a success',
    "state: isFailure ? 'failed' : 'completed',",
    "state: 'completed',",
  ],
  [
    'an effect is forgotten because an inner interceptor had stopped waiting for it',
    "const isSuccess = facts.isEntered ? facts.hasReturned : state.end.kind === 'completed';",
    "const isSuccess = state.end.kind === 'completed';",
  ],
  [
    'a success without a response is released',
    'if (!isKept || isTransactional) return',
    "if (!isKept || isTransactional || end.kind === 'completed') return",
  ],
  [
    'a failure is kept though its policy releases it',
    'if (mayBeKept && rules.keeps(summary)) return kept();',
    'if (mayBeKept) return kept();',
  ],
);

const RUN = [
  ...mistakesIn(
    'lib/core/engine/run-operation.ts',
    [
      'a takeover does not look up what the earlier attempt has done',
      "(attempt.isTakeover || recoverOn === 'always')",
      "((attempt.isTakeover && attempt.transaction !== undefined) || recoverOn === 'always')",
    ],
    [
      'a first attempt looks up what an earlier one has done',
      " && (attempt.isTakeover || recoverOn === 'always')",
      '',
    ],
    [
      'the outcome of another attempt replaces nothing',
      "    case 'other':\n      return { kind: 'stored', outcome: settlement.outcome };",
      "    case 'other':\n      return undefined;",
    ],
    [
      'an incomplete response is stored as a whole one',
      'const outcome = this.outcomeOf(isResponseKept ? response : undefined);',
      'const outcome = this.outcomeOf(response);',
    ],
    [
      'a response is sent before its key is released',
      'return this.settling(this.attempt.release().then(() => undefined));',
      'void this.attempt.release();\n        return this.settling(undefined);',
    ],
  ),
  ...mistakesIn(
    'lib/transports/call/call-transport.ts',
    [
      "a call returns its own value in place of the record's",
      "const reply = replyOf(await this.respond({ kind: 'responseComplete' }, response));\n    if (reply !== undefined) return repliedResult(call, reply);",
      "await this.respond({ kind: 'responseComplete' }, response);",
    ],
    [
      'a value that cannot be stored is not marked as such',
      "if (isUnstorable) this.report({ kind: 'sourceBroken' });",
      '',
      'Without a transaction, a response of a call that is not handed over is stored as not kept.',
    ],
  ),
  ...mistakesIn(
    'lib/transports/http/http-execution.ts',
    [
      'a request gets its own response though another one is stored',
      'const reply = replyOf(settlement);',
      'const reply = replyOf(settlement && undefined);',
    ],
    [
      'a response is sent while it is being stored',
      "return this.respond({ kind: 'responseComplete', status: response.status }, response);",
      "void this.respond({ kind: 'responseComplete', status: response.status }, response);\n    return undefined;",
    ],
  ),
];

const WAITING = mistakesIn(
  'lib/core/engine/duplicate-waiters.ts',
  [
    'a notification before the wait is forgotten',
    '  notify(): void {\n    this.isSet = true;',
    '  notify(): void {',
  ],
  ['a notification does not end the wait', '    this.resume?.();', ''],
  [
    'those that wait for different contents wait together',
    'const name = `${recordKey} ${fingerprint}`;',
    'const name = `${recordKey}`;',
  ],
  [
    'two that wait run the same attempt',
    "if (decision.kind !== 'reject') return decision.kind === 'replay';",
    "if (decision.kind !== 'reject') return true;",
  ],
  [
    'one that waits begins with the token of another one',
    'this.protocol.begin(first.request, first.token),',
    'this.protocol.begin(first.request, [...this.waiters].at(-1)!.token),',
  ],
  [
    'one whose begin got no reply leaves its record behind',
    "if (isUnsure && decision.kind === 'reject') void this.protocol.releaseUnowned(request, token);",
    'void isUnsure;',
    'The key is free again with the lease, as it is where the release is lost, too.',
  ],
  [
    'one that leaves while it is polling drops the attempt that it gets',
    'if (!this.waiters.has(waiter) || waiter === this.polling) return;',
    'if (!this.waiters.has(waiter)) return;',
  ],
  [
    'one waits for longer than its timeout',
    'else if (waiter.giveUpAt <= now || hasLeft(waiter.request)) {',
    'else if (hasLeft(waiter.request)) {',
  ],
  [
    'one that has waited still counts',
    '    this.waiters -= 1;\n',
    "    if (decision.kind === 'replay') this.waiters -= 1;\n",
  ],
  ['a store watches on for no duplicate', '      (await watching)?.();', '      await watching;'],
  [
    'a record that ended before the store watched it is not noticed',
    'if (this.isWatched) notify();',
    '',
    'The next poll notices it: later only where the network is slow, and how late responses are is not judged there.',
  ],
);

const RECOVERY = [
  ...mistakesIn(
    'lib/core/operation/execution-scope.ts',
    [
      'an operation runs again although its effect was found',
      'result = enter(await recover());',
      "await recover();\n      result = enter('run');",
    ],
    ['a found effect is not reported', "if (found !== 'run') attempt.recovered();", ''],
  ),
  ...mistakesIn(
    'lib/core/recovery/recover-record.ts',
    [
      'an operation that had no effect is stored as done',
      "const outcome = found === 'run' ? undefined : operation.outcomeOf(found.value, attempt);",
      "const outcome = operation.outcomeOf(found === 'run' ? undefined : found.value, attempt);",
    ],
    [
      'a look-up that failed keeps the record',
      "    await attempt.release();\n    return 'failed';",
      "    return 'failed';",
    ],
    [
      'a record that has expired is kept by the reconciler',
      "    await attempt.release();\n    return 'overtaken';",
      "    return 'overtaken';",
    ],
    [
      'the reconciler releases what it has found',
      "return recoveryResultOf(await attempt.complete({ state: 'completed', outcome, retentionMs }));",
      "void retentionMs;\n  await attempt.release();\n  return 'completed';",
    ],
  ),
  ...mistakesIn('lib/core/recovery/reconcile.ts', [
    'the reconciler takes records of attempts whose lease has just expired',
    'const { after: overMs } = this.options;',
    'const overMs = 0;',
  ]),
];

export const OPERATION_MISTAKES: readonly Mistake[] = [
  ...SETTLEMENT,
  ...RUN,
  ...WAITING,
  ...RECOVERY,
];
