import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';

const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) then return redis.call('INCR', 'lock-tokens') end
return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end`;

export interface Lock {
  /** Grows with each acquisition of any lock. */
  readonly fencingToken: number;
  release(): Promise<unknown>;
}

/** Stands for `Locks` of `@nestjs/locks`, which cannot be installed here: without the renewal, which no test needs. */
@Injectable()
export class Locks {
  constructor(private readonly redis: Redis) {}

  /** `null` where another one has it. */
  async acquire(key: string): Promise<Lock | null> {
    const owner = randomUUID();
    const fencingToken = Number(await this.redis.eval(ACQUIRE, 1, `lock:${key}`, owner));
    if (fencingToken === 0) return null;
    return { fencingToken, release: () => this.redis.eval(RELEASE, 1, `lock:${key}`, owner) };
  }
}
