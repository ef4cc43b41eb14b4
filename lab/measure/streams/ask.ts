import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';

export interface LargeReply {
  readonly status: number;
  readonly isReplayed: boolean;
  readonly bytes: number;
  /** Absent where it was not asked for. */
  readonly digest?: string;
}

/** Sends a request whose response is large, and reads all of it. */
export async function askForLarge(
  port: number,
  path: string,
  key: string,
  isDigested = true,
): Promise<LargeReply> {
  const headers = { 'idempotency-key': key };
  const sent = request({ port, path: `/${path}`, method: 'POST', headers }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const digest = createHash('sha256');
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (isDigested) digest.update(chunk);
  }
  return {
    status: response.statusCode ?? 0,
    isReplayed: response.headers['idempotent-replayed'] === 'true',
    bytes,
    ...(isDigested && { digest: digest.digest('hex') }),
  };
}
