import { classifyFailure } from './error-classification.js';
import type { ConnectionWatch } from './connection-watch.js';
import type { LuaScript } from './lua-scripts.js';
import type { BinaryRedisClient, ScriptArgument } from './binary-client.js';
import type { ScriptReply } from './script-reply.js';
import { sendWithinBudget } from './send-within-budget.js';

/** Runs a script on one key: by its SHA-1, with its text where the server has forgotten it. */
export class ScriptRunner {
  constructor(
    private readonly client: BinaryRedisClient,
    private readonly watch: ConnectionWatch,
  ) {}

  run(
    script: LuaScript,
    key: string,
    args: readonly ScriptArgument[],
    timeoutMs: number,
  ): Promise<ScriptReply> {
    return sendWithinBudget(this.watch, timeoutMs, (isGivenUp) =>
      this.send(script, key, args, isGivenUp),
    );
  }

  private send(
    { sha1, text }: LuaScript,
    key: string,
    args: readonly ScriptArgument[],
    isGivenUp: () => boolean,
  ): Promise<ScriptReply> {
    return this.client.evalshaBuffer(sha1, 1, key, ...args).catch((error: unknown) => {
      // Too late, the text would be executed for nobody.
      if (isGivenUp() || classifyFailure(error) !== 'script_missing') throw error;
      // The text goes with the call: a flush in between, however often, cannot make it fail again.
      return this.client.evalBuffer(text, 1, key, ...args);
    }) as Promise<ScriptReply>;
  }
}
