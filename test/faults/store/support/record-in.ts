import type { OperationRequest } from '../../../support/internals/core.js';
import { decodeRecord } from '../../../support/redis/decode-record.js';
import type { Scene } from './scene.js';

/** The record; instants in milliseconds of the server's clock. */
export async function recordIn(scene: Scene, request: OperationRequest) {
  const record = decodeRecord((await scene.admin.get(scene.redisKey(request))) ?? '');
  const leaseUntil = record.state === 'in_progress' ? record.leaseUntil : Number.NaN;
  return { state: record.state, leaseUntil };
}
