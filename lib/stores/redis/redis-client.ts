/**
 * What the store needs of a Redis client: any `Redis` (one server, or Sentinel) or `Cluster` of ioredis 5
 * or 6 will do. Structural, so that nobody needs ioredis to compile.
 */
export interface RedisClient {
  readonly status: string;
  // Called in the forms that ioredis does not declare, with bytes in and out; these tell them from others.
  evalsha(sha1: string, numkeys: number, ...args: string[]): Promise<unknown>;
  eval(script: string, numkeys: number, ...args: string[]): Promise<unknown>;
  info(): Promise<string>;
  on(event: string | symbol, listener: (error: Error) => void): unknown;
  off(event: string | symbol, listener: (error: Error) => void): unknown;
}
