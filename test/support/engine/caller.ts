import { randomUUID } from 'node:crypto';
import {
  keepSuccesses,
  type OutcomePolicy,
  type ProtocolOptions,
  canonicalJson,
  fingerprint,
} from '../internals/core.js';
import { JSON_CODEC } from '../internals/codecs.js';
import { CallTransport, valueFormat, type Call } from '../internals/call.js';
import { noServices, protocolOptions } from './protocol-options.js';
import { Worker } from './worker.js';

/** A call with its own key. */
export function newCall(options: ProtocolOptions = {}, keep: OutcomePolicy = keepSuccesses): Call {
  return {
    operation: 'pay',
    transport: 'call',
    keyOperation: 'pay',
    key: randomUUID(),
    scope: ['alice'],
    fingerprint: fingerprint(['pay', canonicalJson({ amount: 7 })]),
    keep,
    format: valueFormat(JSON_CODEC),
    options: protocolOptions(options),
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
  async rejected(call: Call, operation: () => unknown): Promise<unknown> {
    return this.call(call, operation).then(
      (value) => {
        throw new Error(`it returned ${String(value)}`);
      },
      (error: unknown) => error,
    );
  }
}
