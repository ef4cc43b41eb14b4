import { ConflictException } from '@nestjs/common';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { OpenContender, WorkRequest } from '../contender.js';

/** WATCH belongs to a connection, so no two requests may share one at a time. */
const CONNECTIONS = 50;
const RETENTION_MS = 86_400_000;
const POLL_MS = 20;

type Found = 'claimed' | 'running' | { readonly outcome: unknown };

/** What one finds described for "optimistic locking": WATCH, GET, MULTI, SET, EXEC, and again if EXEC fails. */
export const watchMulti: OpenContender = ({ redisUrl }) => {
  const idle = Array.from({ length: CONNECTIONS }, () => new Redis(redisUrl));
  const queue: ((client: Redis) => void)[] = [];
  const reserve = async () => idle.pop() ?? new Promise<Redis>((resolve) => queue.push(resolve));
  const release = (client: Redis) => {
    const next = queue.shift();
    if (next === undefined) idle.push(client);
    else next(client);
  };

  async function request(key: string): Promise<Found> {
    const client = await reserve();
    try {
      for (;;) {
        await client.watch(key);
        const value = await client.get(key);
        if (value !== null) {
          await client.unwatch();
          return value === 'running' ? 'running' : { outcome: JSON.parse(value) };
        }
        const done = await client.multi().set(key, 'running', 'PX', RETENTION_MS).exec();
        if (done !== null) return 'claimed';
      }
    } finally {
      release(client);
    }
  }

  async function finish(key: string, outcome: unknown): Promise<void> {
    const client = await reserve();
    try {
      await client.set(key, JSON.stringify(outcome), 'PX', RETENTION_MS);
    } finally {
      release(client);
    }
  }

  return {
    around: async ({ headers, url }: WorkRequest, work) => {
      const key = `watch:${headers['idempotency-key'] ?? ''}`;
      for (;;) {
        const found = await request(key);
        if (found === 'claimed') {
          const outcome = await work();
          await finish(key, outcome);
          return outcome;
        }
        if (found !== 'running') return found.outcome;
        if (url !== '/waiting') throw new ConflictException();
        await delay(POLL_MS);
      }
    },
  };
};
