import { classifyFailure } from './error-classification.js';
import type { ConnectionWatch } from './connection-watch.js';
import type { LuaScript } from './lua-scripts.js';
import type { BinaryRedisClient, ScriptArgument } from './redis-client.js';
import type { ScriptReply } from './script-reply.js';
import { sendWithinBudget } from './send-within-budget.js';

/** Runs a script on one key: by its SHA-1, with its text where the server has forgotten it. */
export class ScriptRunner {
  constructor(
    private readonly client: BinaryRedisClient,
    private readonly watch: ConnectionWatch,
  ) {}

  async run(
    script: LuaScript,
    key: string,
    args: readonly ScriptArgument[],
    timeoutMs: number,
  ): Promise<ScriptReply> {
    const reply = await sendWithinBudget(this.watch, timeoutMs, () => this.send(script, key, args));
    return reply as ScriptReply;
  }

  private async send(
    { sha1, text }: LuaScript,
    key: string,
    args: readonly ScriptArgument[],
  ): Promise<unknown> {
    try {
      return await this.client.evalshaBuffer(sha1, 1, key, ...args);
    } catch (error) {
      if (classifyFailure(error) !== 'script_missing') throw error;
      // The text goes with the call: a flush in between, however often, cannot make it fail again.
      return this.client.evalBuffer(text, 1, key, ...args);
    }
  }
}
