import type { Claim } from '../../../../lib/core/claim.js';
import type { Scene } from './scene.js';

/** What the line of a record in progress says; instants in milliseconds of the server's clock. */
export async function recordIn(scene: Scene, claim: Claim) {
  const line = (await scene.admin.get(scene.redisKey(claim))) ?? '';
  const [, state, fence, leaseUntil] = line.split(' ');
  return { state, fence: Number(fence), leaseUntil: Number(leaseUntil) };
}
