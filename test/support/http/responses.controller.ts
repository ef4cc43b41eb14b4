import { Header, HttpCode, HttpException, Redirect, StreamableFile } from '@nestjs/common';
import { Exclude, Expose, Transform } from 'class-transformer';
import { finished, pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import { Idempotent } from 'nestjs-idempotency';
import { defer, from, map, mergeMap } from 'rxjs';
import type { ExpressResponse, FastifyReply, Reply } from './reply.js';
import { after, controllerOf, InjectsReply, native, withReply } from './routes-of.js';

const octets = (length: number) =>
  Buffer.from(Array.from({ length }, (_, index) => (index * 31) % 256));

class Account {
  id: string;

  @Exclude()
  password = 'hidden-password';

  constructor(execution: number) {
    this.id = `account-${execution}`;
  }

  @Expose()
  get label(): string {
    return this.id.toUpperCase();
  }
}

class Unserializable {
  id = 'unserializable';

  @Transform(() => {
    throw new Error('the serializer fails');
  })
  value = 1;
}

let calls = 0;
/** A different value in every exchange. */
const nextTag = () => `"tag-${(calls += 1)}"`;

const withId = after((id) => ({ id }));

/** Every way in which a handler can respond on both platforms, named by the path. */
export const ResponsesController = controllerOf(
  'ResponsesController',
  {
    object: after((id) => ({ id, nested: { list: [1, null, 'ü€😀'] } })),
    array: after((id) => [id, { a: 1 }]),
    string: after((id) => `execution ${id}: ü€😀`),
    'json-in-a-string': after((id) => `{"execution": ${id} }`),
    'empty-string': after(() => ''),
    'text-with-its-type': [Header('Content-Type', 'text/plain'), after((id) => `execution ${id}`)],
    number: after((id) => id),
    false: after(() => false),
    null: after(() => null),
    undefined: after(() => undefined),
    'no-content': [HttpCode(204), after(() => undefined)],
    accepted: [HttpCode(202), withId],
    buffer: after(() => octets(512)),
    'streamable-file': after(
      () => new StreamableFile(octets(30_000), { type: 'image/png', disposition: 'inline' }),
    ),
    'streamable-chunks': after(
      (id) => new StreamableFile(Readable.from([Buffer.from(`${id};`), octets(70_000), octets(3)])),
    ),
    generator: async function* (scenario) {
      yield `execution ${await scenario.run()}\n`;
      yield 'second line\n';
    },
    'web-response': after((id) => {
      const headers = { 'Content-Type': 'text/csv', 'X-Own': 'kept' };
      return new Response(`execution,${id}`, { status: 202, headers });
    }),
    observable: (scenario) => from(scenario.run()).pipe(map((id) => ({ id }))),
    'observable-of-many': (scenario) =>
      from(scenario.run()).pipe(mergeMap((id) => from([{ id: 0 }, { id }]))),
    'promise-of-observable': after((id) => from([{ id: 0 }, { id }])),
    'hidden-member': after((id) => new Account(id)),
    'static-header': [Header('X-Static', 'of the route'), Header('Cache-Control', 'none'), withId],
    'dynamic-header': [Header('X-Tag', nextTag), Header('ETag', nextTag), withId],
    redirect: [Redirect('/elsewhere', 303), after(() => undefined)],
    'dynamic-redirect': [
      Redirect('/elsewhere', 302),
      after((id) => ({ url: `/executions/${id}`, statusCode: 307 })),
    ],
    passthrough: withReply((id, reply: Reply) => {
      const links = ['</a>; rel="next"', '</b>; rel="prev"'];
      reply.status(207).header('Link', links).header('Location', '/x').header('ETag', '"1"');
      return { id };
    }),
    'native-send': native((id, reply: Reply) => {
      reply.status(202).header('X-Own', 'kept').header('Link', ['</a>', '</b>']).send({ id });
    }),
    'native-text': native((id, reply: Reply) => {
      reply.header('Content-Type', 'text/plain').send(`execution ${id}`);
    }),
    'native-buffer': native((_, reply: Reply) => {
      reply.header('Content-Type', 'application/octet-stream').send(octets(512));
    }),
    'native-nothing': native((_, reply: Reply) => {
      reply.status(204).send();
    }),
    'native-without-waiting': [
      InjectsReply,
      (scenario, reply: Reply) => {
        void scenario.run().then((id) => reply.send({ id }));
      },
    ],
    'native-send-then-throw': native((id, reply: Reply) => {
      reply.header('X-Own', 'kept').send({ id });
      throw new Error('after the answer');
    }),
    'thrown-409': withReply((conflict, reply: Reply) => {
      reply.header('X-Reason', 'conflict');
      throw new HttpException({ conflict }, 409);
    }),
    'thrown-404-observable': (scenario) =>
      defer(async () => {
        throw new HttpException(`nothing at ${await scenario.run()}`, 404);
      }),
    'decorated-twice': [Idempotent({ operation: 'the-methods-own-name' }), withId],
  },
  Idempotent(),
);

/** What only Express' response can do. */
export const ExpressResponsesController = controllerOf(
  'ExpressResponsesController',
  {
    'native-json': native((id, response: ExpressResponse) => {
      response.status(201).append('Link', '</a>').append('Link', '</b>').json({ id });
    }),
    'native-writes': native((id, response: ExpressResponse) => {
      response.setHeader('Content-Type', 'text/plain');
      response.write(`execution ${id};`);
      response.write(octets(300));
      response.write(Buffer.from('ü€😀'));
      response.write('bGF0aW4=', 'base64');
      response.end('the end');
    }),
    'native-write-head': native((_, response: ExpressResponse) => {
      response.writeHead(202, { 'X-Own': 'kept', 'Content-Type': 'text/plain' });
      response.end('written by hand');
    }),
    'native-flush': [
      InjectsReply,
      async (scenario, response: ExpressResponse) => {
        response.setHeader('X-Own', 'kept');
        response.flushHeaders();
        response.end(`execution ${await scenario.run()}`);
      },
    ],
    'native-pipeline': native((_, response: ExpressResponse) =>
      pipeline(Readable.from([octets(70_000), octets(70_000), octets(1)]), response),
    ),
    'native-finished': native(async (id, response: ExpressResponse) => {
      response.send({ id });
      await finished(response);
    }),
    'native-redirect': native((id, response: ExpressResponse) =>
      response.redirect(303, `/executions/${id}`),
    ),
    'native-status': native((_, response: ExpressResponse) => {
      response.sendStatus(202);
    }),
    'native-end-callback': native(
      (id, response: ExpressResponse) =>
        new Promise<void>((resolve) => response.end(`execution ${id}`, resolve)),
    ),
  },
  Idempotent(),
);

/** What only Fastify's reply can do. */
export const FastifyResponsesController = controllerOf(
  'FastifyResponsesController',
  {
    'native-return-send': native((id, reply: FastifyReply) => reply.send({ id })),
    'native-await-reply': native(async (id, reply: FastifyReply) => {
      void reply.send({ id });
      await reply;
    }),
    'native-finished': native(async (id, reply: FastifyReply) => {
      void reply.send({ id });
      await finished(reply.raw);
    }),
    'native-stream': native(async (_, reply: FastifyReply) => {
      const chunks = Readable.from([octets(70_000), octets(70_000)]);
      await reply.header('Content-Type', 'image/png').send(chunks);
    }),
    'native-hijack': native((id, reply: FastifyReply) => {
      reply.hijack();
      reply.raw.writeHead(202, { 'Content-Type': 'text/plain', 'X-Own': 'kept' });
      reply.raw.write(`execution ${id};`);
      reply.raw.end('the end');
    }),
    'native-redirect': native((id, reply: FastifyReply) => {
      void reply.redirect(`/executions/${id}`, 303);
    }),
  },
  Idempotent(),
);

/** Responses that something after the handler turns into an error. */
export const DivergingResponsesController = controllerOf(
  'DivergingResponsesController',
  {
    unserializable: after(() => new Unserializable()),
    circular: after((id) => {
      const circle: Record<string, unknown> = { id };
      circle.self = circle;
      return circle;
    }),
    bigint: after((id) => ({ id: BigInt(id) })),
  },
  Idempotent(),
);
