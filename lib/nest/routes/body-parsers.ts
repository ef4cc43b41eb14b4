import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';

/** What Nest calls to set up its body parsers; the same on Express and on Fastify. */
interface ParsingAdapter {
  getInstance(): ParsingInstance;
  registerParserMiddleware: (prefix?: string, rawBody?: boolean) => unknown;
  useBodyParser?: (
    type: unknown,
    rawBody: boolean,
    options?: { readonly verify?: unknown },
    parser?: unknown,
  ) => unknown;
}

interface ParsingInstance {
  /** Express'. */
  readonly router?: {
    readonly stack?: readonly { readonly handle?: { readonly name?: string } }[];
  };
  /** Fastify's. */
  hasRequestDecorator?(name: string): boolean;
}

/**
 * Knows whether the application keeps raw bodies. Nest tells nobody but its adapter, while it sets up
 * its parsers, which is after the providers are there and before `onModuleInit`.
 */
@Injectable()
export class BodyParsers {
  private adapter: ParsingAdapter | undefined;
  /** Whether a parser that Nest has made is the first for JSON: one of the application's own may keep raw bodies, too. */
  private isJsonParsedByNest = false;
  private rawBody: boolean | undefined;
  /** On Nest 11 its adapter for Fastify gives its own parsers a function, as an application does. */
  private isNestRegistering = false;

  constructor(host: HttpAdapterHost) {
    host.init$.subscribe(() => {
      // None in an application without HTTP.
      const adapter = host.httpAdapter as ParsingAdapter | null | undefined;
      if (adapter !== null && adapter !== undefined) this.watch(adapter);
    });
  }

  /** Whether there are certainly no raw bodies; what cannot be known at the start shows at a request. */
  get dropRawBodies(): boolean {
    // The decorator is what plugins make that keep raw bodies on Fastify.
    const isKeptByPlugin = this.adapter?.getInstance().hasRequestDecorator?.('rawBody') === true;
    return this.rawBody === false && this.isJsonParsedByNest && !isKeptByPlugin;
  }

  private watch(adapter: ParsingAdapter): void {
    this.adapter = adapter;
    const { registerParserMiddleware: register, useBodyParser: use } = adapter;
    adapter.registerParserMiddleware = (prefix, rawBody) => {
      this.rawBody = rawBody === true;
      const { router } = adapter.getInstance();
      if (router !== undefined && !hasParser(router)) this.isJsonParsedByNest = true;
      this.isNestRegistering = true;
      try {
        return register.call(adapter, prefix, rawBody);
      } finally {
        this.isNestRegistering = false;
      }
    };
    if (use === undefined) return;
    adapter.useBodyParser = (type, rawBody, options, parser) => {
      const isGiven = typeof parser === 'function' || options?.verify !== undefined;
      const keepsAsItLikes = isGiven && !this.isNestRegistering;
      if (isJson(type) && !keepsAsItLikes && !hasParser(adapter.getInstance().router)) {
        this.rawBody = rawBody;
        this.isJsonParsedByNest = true;
      }
      return use.call(adapter, type, rawBody, options, parser);
    };
  }
}

/** Express' that leave the bytes of JSON as they are, or whose option `verify` may keep them. */
const PARSERS = new Set(['jsonParser', 'rawParser', 'textParser']);

function hasParser(router: ParsingInstance['router']): boolean {
  return (router?.stack ?? []).some(({ handle }) => PARSERS.has(handle?.name ?? ''));
}

function isJson(type: unknown): boolean {
  return [type].flat().some((one) => one === 'json' || one === 'application/json');
}
