import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  randomBytes,
  randomFillSync,
} from 'node:crypto';
import { staticKeys } from 'nestjs-idempotency';
import { nodeClock } from '../../../test/support/internals/core.js';
import { OutcomeTransform } from '../../../test/support/internals/payload.js';
import { interleave, type Entrant } from '../measuring/interleave.js';
import { roundsOf, type Findings, type Part, type PartContext } from './part.js';

const ROUNDS = {
  quick: { rounds: 8, roundMs: 200, warmUpMs: 1_000, settleMs: 50 },
  default: { rounds: 24, roundMs: 300, warmUpMs: 2_000, settleMs: 100 },
} as const;

export const BARE_CIPHERS = 'createCipheriv + createDecipheriv';

const BYTES = 1_024;
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
/** As often as the clock is read. */
const AT_ONCE = 100;

/** To encrypt an outcome and to read it again, in the process. No entry exports that: the sources of the checkout run. */
export const sealingPart: Part = {
  name: 'sealing',
  needsPeers: false,
  isJudged: true,
  run: (context) => measureSealing(context),
};

async function measureSealing(context: PartContext): Promise<Findings> {
  const rounds = roundsOf(context, ROUNDS);
  const entrants = [
    entrantOf('nestjs-idempotency', await ours()),
    entrantOf(BARE_CIPHERS, bareCiphers()),
  ];
  const groups = [{ factors: { bytes: BYTES }, entrants }];
  const measurements = await interleave(groups, rounds, (round) =>
    context.onProgress(`round ${round} of ${rounds.rounds}`),
  );
  return { measurements, rounds, versions: {} };
}

const HEADER = '{"status":201,"headers":{"content-type":"application/json"}}';

async function ours(): Promise<() => unknown> {
  const keys = { k1: randomBytes(32) };
  const transform = new OutcomeTransform(staticKeys({ current: 'k1', keys }), nodeClock);
  await transform.open();
  const outcome = { header: HEADER, body: randomBytes(BYTES) };
  const binding = {
    ...{ recordKey: 'r'.repeat(43) as never, fingerprint: 'f'.repeat(22) as never },
    state: 'completed' as const,
  };
  const options = { compression: false, offload: false, maxBytes: BYTES } as const;
  const owner = { token: 't'.repeat(22) as never, retentionMs: 86_400_000 };
  return () => transform.unpack(transform.pack(outcome, binding, options, owner) as never, binding);
}

/** The same bytes by a KeyObject, with nonces that are drawn as ours are. */
function bareCiphers(): () => unknown {
  const key = createSecretKey(randomBytes(32));
  const content = Buffer.concat([Buffer.alloc(4), Buffer.from(HEADER), randomBytes(BYTES)]);
  const nonces = Buffer.alloc(NONCE_BYTES * 256);
  let used = nonces.length;
  return () => {
    if (used === nonces.length) {
      randomFillSync(nonces);
      used = 0;
    }
    const nonce = nonces.subarray(used, (used += NONCE_BYTES));
    const cipher = createCipheriv(CIPHER, key, nonce);
    const sealed = cipher.update(content);
    cipher.final();
    const decipher = createDecipheriv(CIPHER, key, nonce);
    decipher.setAuthTag(cipher.getAuthTag());
    const clear = decipher.update(sealed);
    decipher.final();
    return clear;
  };
}

function entrantOf(name: string, task: () => unknown): Entrant {
  return {
    name,
    run: (ms) => {
      let count = 0;
      const cpu = process.cpuUsage();
      const end = performance.now() + ms;
      do {
        for (let times = 0; times < AT_ONCE; times += 1) task();
        count += AT_ONCE;
      } while (performance.now() < end);
      const { user, system } = process.cpuUsage(cpu);
      return Promise.resolve({ count, cpuUs: (user + system) / count });
    },
  };
}
