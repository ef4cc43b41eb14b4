import type { BinaryRedisClient, ScriptArgument } from './binary-client.js';
import type { ConnectionWatch } from './connection-watch.js';
import type { LuaScript } from './lua-scripts.js';
import type { ScriptReply } from './script-reply.js';
import { sendWithinBudget, type Transmission } from './send-within-budget.js';
import type { WriteBatch } from './write-batch.js';

/** What makes a result of a script's reply. */
export type ReplyReader<Result> = (reply: ScriptReply) => Result;

/** Makes the arguments of a script. What cannot be one is told like every other failure. */
export type ArgumentSource = () => readonly ScriptArgument[];

/** Runs a script on one key: by its SHA-1, with its text where the server has forgotten it. */
export class ScriptRunner {
  constructor(
    private readonly client: BinaryRedisClient,
    private readonly watch: ConnectionWatch,
    private readonly batch?: WriteBatch,
  ) {}

  run<Result>(
    script: LuaScript,
    key: string,
    args: ArgumentSource,
    timeoutMs: number,
    read: ReplyReader<Result>,
  ): Promise<Result> {
    const prepare = () => new ScriptCall(this.client, this.batch, script, key, args());
    return sendWithinBudget(this.watch, timeoutMs, prepare, read);
  }
}

class ScriptCall implements Transmission<ScriptReply> {
  constructor(
    private readonly client: BinaryRedisClient,
    private readonly batch: WriteBatch | undefined,
    private readonly script: LuaScript,
    private readonly key: string,
    private readonly args: readonly ScriptArgument[],
  ) {}

  send(): Promise<ScriptReply> {
    const { client, batch, script, key, args } = this;
    batch?.join();
    return client.evalshaBuffer(script.sha1, 1, key, ...args) as Promise<ScriptReply>;
  }

  sendText(): Promise<ScriptReply> {
    const { client, script, key, args } = this;
    return client.evalBuffer(script.text, 1, key, ...args) as Promise<ScriptReply>;
  }
}
