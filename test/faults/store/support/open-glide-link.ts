import type { OwnConnectionOptions } from 'nestjs-idempotency/redis';
import { glideLink, type RedisLink } from '../../../support/internals/redis.js';
import { glideClient } from '../../../support/redis/glide-clients.js';
import { TcpRelay, type Link } from '../../../support/servers/tcp-relay.js';

/** No caller waits longer by the clock that no test drives. GLIDE closes no client before what it has sent has timed out. */
const LONGEST_MS = 20_000;
/** Between two attempts to connect, which GLIDE otherwise makes in seconds. */
const PAUSES = { numberOfRetries: 3, factor: 10, exponentBase: 2 };
const CHECKS_PER_LIMIT = 4;

/**
 * The same by GLIDE, whose client the application opens and closes. GLIDE itself leaves a connection without replies to the
 * operating system, which ends it after minutes: here after `socketTimeout`.
 */
export async function openLink({
  url = '',
  connection = {},
}: OwnConnectionOptions): Promise<RedisLink> {
  const system = await Unanswered.start(Number(new URL(url).port));
  if (connection.socketTimeout !== undefined) system.limitMs = connection.socketTimeout;
  const client = await glideClient(system.port, {
    requestTimeout: LONGEST_MS,
    connectionBackoff: PAUSES,
  });
  const link = glideLink(client);
  const close = link.close.bind(link);
  return Object.assign(link, {
    close: async () => {
      await close();
      client.close();
      await system.stop();
    },
  });
}

/** Ends connections on which the server has not answered for so long. */
class Unanswered extends TcpRelay {
  limitMs = Infinity;

  protected override pass(link: Link): void {
    const { client, server, breakBoth } = link;
    let askedAt: number | undefined;
    client.on('data', () => (askedAt ??= performance.now()));
    server.on('data', () => (askedAt = undefined));
    server.on('close', breakBoth);
    super.pass(link);
    if (this.limitMs === Infinity) return;
    const checking = setInterval(() => {
      if (askedAt !== undefined && performance.now() - askedAt >= this.limitMs) breakBoth();
    }, this.limitMs / CHECKS_PER_LIMIT);
    client.on('close', () => clearInterval(checking));
  }
}
