import type { OperationRequest } from '../../../support/internals/core/operation.js';
import type { Scene } from './scene.js';

/** The fields of a record in progress; instants in milliseconds of the server's clock. */
export async function recordIn(scene: Scene, request: OperationRequest) {
  const line = (await scene.admin.get(scene.redisKey(request))) ?? '';
  const [, state, fence, leaseUntil] = line.split(' ');
  return { state, fence: Number(fence), leaseUntil: Number(leaseUntil) };
}
