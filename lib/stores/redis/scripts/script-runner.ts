import { newNonce } from '../../../core/util/nonce.js';
import type { ScriptArgument } from '../ioredis/client-types.js';
import type { ConnectionState } from '../ioredis/connection-state.js';
import {
  classifyFailure,
  isFlagsRejection,
  isRedirection,
} from '../ioredis/error-classification.js';
import type { LuaScript } from './lua-scripts.js';
import { isReplyTo, type ScriptReply } from './replies.js';
import type { ReplyOrder } from './reply-order.js';
import type { ScriptLink, ScriptLinks } from './script-links.js';
import { sendUntilDeadline, type Sending, type Transmission } from './send-until-deadline.js';

export type ReplyReader<Result> = (reply: ScriptReply) => Result;

/** Creates the arguments of a script, except the nonce. Its errors reject the promise of the command. */
export type ArgumentSource = () => readonly ScriptArgument[];

/** Runs a script on one key: by its SHA-1, or with its text if the server does not have it. */
export class ScriptRunner {
  constructor(
    protected readonly links: ScriptLinks,
    private readonly watch: ConnectionState,
    protected readonly form: ScriptForm,
  ) {}

  run<Result>(
    script: LuaScript,
    key: string,
    args: ArgumentSource,
    timeoutMs: number,
    read: ReplyReader<Result>,
  ): Promise<Result> {
    const prepare = () => this.command(script, key, args(), timeoutMs);
    return sendUntilDeadline(this.watch, timeoutMs, prepare, read);
  }

  protected command(
    script: LuaScript,
    key: string,
    args: readonly ScriptArgument[],
    _timeoutMs: number,
  ): ScriptCommand {
    return new ScriptCommand(this.links, this.form, script, key, args);
  }
}

/** The form of the scripts that the servers in use compile. */
export class ScriptForm {
  private hasFlags = false;

  /** @param hasFlags - whether a server has said so. Another one of its cluster may still not. */
  found(hasFlags: boolean): void {
    this.hasFlags = hasFlags;
  }

  of(script: LuaScript): LuaScript {
    return this.hasFlags ? (script.flagged ?? script) : script;
  }

  /** After a server that does not know the flags, every server gets the form that all of them compile. */
  failed(error: unknown): void {
    if (isFlagsRejection(error)) this.hasFlags = false;
  }
}

export class ScriptCommand implements Transmission<ScriptReply> {
  protected link: ScriptLink | undefined;
  protected nonce = '';

  constructor(
    protected readonly links: ScriptLinks,
    private readonly form: ScriptForm,
    protected script: LuaScript,
    protected readonly key: string,
    private readonly args: readonly ScriptArgument[],
  ) {}

  get order(): ReplyOrder | undefined {
    return this.link?.order;
  }

  send(sending: Sending): Promise<unknown> | undefined {
    const { form, script, key, args } = this;
    const link = this.takeLink();
    const { corkedWrites, ownCommands } = link;
    const { sha1 } = form.of(script);
    corkedWrites?.cork();
    if (ownCommands?.evalsha(sha1, key, this.nonce, args, sending) === true) return undefined;
    return this.sendByClient(link);
  }

  /** The same, by a method of the client. */
  protected sendByClient({ client, keyPrefix } = this.takeLink()): Promise<unknown> {
    const { form, script, key, args } = this;
    return client.evalshaBuffer(form.of(script).sha1, 1, keyPrefix + key, this.nonce, ...args);
  }

  sendAgain(failure: unknown): Promise<unknown> | undefined {
    const { form, script, key, args } = this;
    const link = this.linkAfter(failure);
    if (link === undefined) return undefined;
    const { client, keyPrefix } = this.useLink(link);
    return client.evalBuffer(form.of(script).text, 1, keyPrefix + key, this.nonce, ...args);
  }

  failed(error: unknown): void {
    this.form.failed(error);
  }

  isOwn(reply: unknown): reply is ScriptReply {
    return isReplyTo(this.nonce, reply);
  }

  private linkAfter(failure: unknown): ScriptLink | undefined {
    const { links, link, key } = this;
    if (isRedirection(failure)) return link && links.redirect?.(link, failure);
    return classifyFailure(failure) === 'script_missing' ? links.linkOf(key) : undefined;
  }

  /** @throws NotSentError without a connection. */
  protected takeLink(): ScriptLink {
    this.link = undefined;
    return this.useLink(this.links.linkOf(this.key));
  }

  private useLink(link: ScriptLink): ScriptLink {
    this.link = link;
    this.nonce = newNonce();
    return link;
  }
}
