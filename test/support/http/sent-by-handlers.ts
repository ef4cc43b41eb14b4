import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Controller, Param, Post, Req, Res, type Type } from '@nestjs/common';
import { Idempotent, type IdempotencyOptions } from 'nestjs-idempotency';
import type { Platform } from './combinations.js';
import type { ExpressResponse, FastifyReply } from './reply.js';
import { InScenario, Scenario } from './scenario.js';

/** How a handler sends its response itself. @returns what it returns. */
type Form<AnyReply> = (reply: AnyReply, text: string, request: { res?: AnyReply }) => unknown;

/** Forms after which the response has not ended: the framework ends it. */
export const PARTIAL: readonly string[] = ['writes before a value', 'sends only a head'];

const onExpress: Record<string, Form<ExpressResponse>> = {
  send: (res, text) => void res.status(201).send(text),
  json: (res, text) => void res.status(202).json({ text }),
  'request.res': (_, text, { res }) => void res!.status(201).send(text),
  'send and a value': (res, text) => {
    res.status(201).send(text);
    return { other: true };
  },
  end: (res, text) => void res.end(text),
  'end with a callback': (res, text) => new Promise<void>((done) => res.end(text, done)),
  'write and end': (res, text) => {
    res.writeHead(202, { 'X-Own': 'yes' });
    res.write(text);
    res.end('.');
  },
  redirect: (res, text) => {
    res.redirect(303, `/receipts/${text}`);
  },
  'a finished pipeline': (res, text) => pipeline(Readable.from([text, '.']), res),
  'a pipe': (res, text) =>
    new Promise<void>((done) => {
      Readable.from([text, '.']).on('end', done).pipe(res);
    }),
  'writes before a value': (res, text) => {
    res.write(text);
    return { other: true };
  },
  'sends only a head': (res) => {
    res.flushHeaders();
  },
};

const onFastify: Record<string, Form<FastifyReply>> = {
  send: (reply, text) => void reply.status(201).send(text),
  'send an object': (reply, text) => void reply.status(202).send({ text }),
  'send and the reply': (reply, text) => reply.status(202).send(text),
  'send and a value': (reply, text) => {
    reply.status(201).send(text);
    return { other: true };
  },
  'send a stream': (reply, text) => void reply.status(201).send(Readable.from([text, '.'])),
  redirect: (reply, text) => void reply.redirect(`/receipts/${text}`, 303),
  'writes before a value': (reply, text) => {
    reply.raw.write(text);
    return { other: true };
  },
  'raw end': (reply, text) => void reply.raw.end(text),
  'hijacked end': (reply, text) => {
    reply.hijack();
    reply.raw.writeHead(202, { 'X-Own': 'yes' });
    reply.raw.write(text);
    reply.raw.end('.');
  },
  'a finished pipeline': (reply, text) => {
    reply.hijack();
    return pipeline(Readable.from([text, '.']), reply.raw);
  },
};

export const formsOf = (platform: Platform): readonly string[] =>
  Object.keys(platform === 'express' ? onExpress : onFastify);

export const ENDS = ['returns', 'throws', 'awaits'] as const;

/** Sends the response in its first execution, and then ends as the route says; later executions only return. */
export function sendingController(
  platform: Platform,
  options: IdempotencyOptions,
  /** The effect of an execution. */
  act: (scenario: Scenario, execution: number) => unknown,
): Type {
  const forms = (platform === 'express' ? onExpress : onFastify) as Record<string, Form<unknown>>;

  @Controller()
  class SendingController {
    @Post(':form/:end')
    @Idempotent(options)
    async send(
      @InScenario() scenario: Scenario,
      @Param('form') form: string,
      @Param('end') end: (typeof ENDS)[number],
      @Res({ passthrough: true }) reply: unknown,
      @Req() request: { res?: unknown },
    ) {
      const execution = scenario.started.add();
      await act(scenario, execution);
      if (execution > 1) return { execution };
      const value = await forms[form]!(reply, `execution-${execution}`, request);
      // What a handler does after its response.
      if (end !== 'returns') await (end === 'awaits' ? scenario.gate.pass() : Promise.resolve());
      scenario.passed.add();
      if (end === 'throws') throw new Error('the e-mail failed');
      return value;
    }
  }
  return SendingController;
}
