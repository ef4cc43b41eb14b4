import { afterAll, describe } from '@jest/globals';
import { unpackServer, type Suite } from '../../../support/provision/unpacked-server.js';

export interface UnpackedRedis {
  /** Such as `Valkey 9.1.2-1`, or why there is none. */
  readonly title: string;
  /** Skips where there is none. */
  readonly describe: typeof describe | typeof describe.skip;
  readonly isThere: boolean;
  /** Its major and minor version. */
  readonly series: string;
}

/** Has this test file start the newest server that the archive has, wherever it starts a Redis. */
export async function useUnpackedRedis(
  product: 'Redis' | 'Valkey',
  suite: Suite,
): Promise<UnpackedRedis> {
  const program = `${product.toLowerCase()}-server`;
  const server = await unpackServer(suite, program);
  if (server === undefined) {
    const title = `${product} of Debian ${suite}, whose archive cannot be reached`;
    return { title, describe: describe.skip, isThere: false, series: '' };
  }
  afterAll(() => server.remove());
  process.env.REDIS_SERVER_BIN = server.program(`usr/bin/${program}`);
  // With Debian's epoch in front: 5:8.0.6-3.
  const version = server.version.replace(/^\d+:/, '');
  const [series = ''] = /^\d+\.\d+/.exec(version) ?? [];
  process.stdout.write(`${product} ${version}\n`);
  return { title: `${product} ${version}`, describe, isThere: true, series };
}
