import type { ServerResponse } from 'node:http';

/** What Express' response and Fastify's reply have in common. */
export interface Reply {
  status(code: number): this;
  header(name: string, value: string | readonly string[]): this;
  send(body?: unknown): this;
}

export type ExpressResponse = Omit<ServerResponse, 'status'> &
  Reply & {
    json(body: unknown): ExpressResponse;
    sendStatus(status: number): ExpressResponse;
    redirect(status: number, url: string): void;
    append(name: string, value: string): ExpressResponse;
  };

export interface FastifyReply extends Reply, PromiseLike<unknown> {
  readonly raw: ServerResponse;
  hijack(): this;
  redirect(url: string, status: number): this;
}

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
