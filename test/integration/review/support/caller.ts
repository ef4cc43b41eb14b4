import { randomUUID } from 'node:crypto';
import type { ProtocolOptions } from 'nestjs-idempotency';
import { PROTOCOL_DEFAULTS } from '../../../../lib/core/options.js';
import { keepSuccesses, type OutcomePolicy } from '../../../../lib/core/outcome-policy.js';
import { CallTransport, type Call } from '../../../../lib/transports/call/call-transport.js';
import { noServices } from '../../../support/no-services.js';
import { Worker } from '../../engine/support/worker.js';

/** A call with a key of its own. */
export function newCall(options: ProtocolOptions = {}, keep: OutcomePolicy = keepSuccesses): Call {
  return {
    operation: 'pay',
    key: randomUUID(),
    scope: ['alice'],
    payload: { amount: 7 },
    keep,
    maxStoredBytes: 1_000_000,
    options: { ...PROTOCOL_DEFAULTS, ...options },
  };
}

/** A worker that is given plain calls. */
export class Caller extends Worker {
  private readonly calls = new CallTransport(this.engine, noServices);

  call(call: Call, operation: () => unknown): Promise<unknown> {
    return this.calls.run(call, operation);
  }

  /** @returns what the call was refused with. */
  async refused(call: Call, operation: () => unknown): Promise<unknown> {
    return this.call(call, operation).then(
      (value) => {
        throw new Error(`it returned ${String(value)}`);
      },
      (error: unknown) => error,
    );
  }
}
