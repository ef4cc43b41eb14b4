import type { ServerResponse } from 'node:http';
import type { FastifyReply } from './reply.js';

/** Node's response, taken over from the framework so that the handler may write to it. */
export function takeRaw(reply: ServerResponse | FastifyReply): ServerResponse {
  if (!('raw' in reply)) return reply;
  reply.hijack();
  return reply.raw;
}

/** Node's response, which the framework will still send. */
export function peekRaw(reply: ServerResponse | FastifyReply): ServerResponse {
  return 'raw' in reply ? reply.raw : reply;
}
