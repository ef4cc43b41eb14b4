import { randomUUID } from 'node:crypto';
import type { ProtocolOptions } from 'nestjs-idempotency';
import { PROTOCOL_DEFAULTS } from '../../../../lib/core/options.js';
import { keepSuccesses, type OutcomePolicy } from '../../../../lib/core/outcome-policy.js';
import { JSON_CODEC } from '../../../../lib/codecs/json/json-codec.js';
import { canonicalJson } from '../../../../lib/core/canonical-json.js';
import { fingerprint } from '../../../../lib/core/fingerprint.js';
import { CallTransport } from '../../../../lib/transports/call/call-transport.js';
import type { Call } from '../../../../lib/transports/call/call.js';
import { valueFormat } from '../../../../lib/transports/call/outcome-format.js';
import { noServices } from '../../../support/no-services.js';
import { Worker } from '../../engine/support/worker.js';

/** A call with its own key. */
export function newCall(options: ProtocolOptions = {}, keep: OutcomePolicy = keepSuccesses): Call {
  return {
    operation: 'pay',
    keyOperation: 'pay',
    key: randomUUID(),
    scope: ['alice'],
    fingerprint: fingerprint(['pay', canonicalJson({ amount: 7 })]),
    keep,
    format: valueFormat(JSON_CODEC),
    maxStoredBytes: 1_000_000,
    options: { ...PROTOCOL_DEFAULTS, ...options },
  };
}

/** A worker for plain calls. */
export class Caller extends Worker {
  private readonly calls = new CallTransport(this.engine, noServices);

  async call(call: Call, operation: () => unknown): Promise<unknown> {
    const result = await this.calls.settle(call, operation);
    if (result.kind !== 'value') throw result.error;
    return result.value;
  }

  /** @returns the rejection of the call. */
  async refused(call: Call, operation: () => unknown): Promise<unknown> {
    return this.call(call, operation).then(
      (value) => {
        throw new Error(`it returned ${String(value)}`);
      },
      (error: unknown) => error,
    );
  }
}
