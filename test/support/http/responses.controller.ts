import {
  Controller,
  Header,
  HttpCode,
  HttpException,
  Post,
  Redirect,
  Res,
  StreamableFile,
} from '@nestjs/common';
import { Exclude, Expose, Transform } from 'class-transformer';
import { finished, pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import { Idempotent } from 'nestjs-idempotency';
import { defer, from, map, mergeMap } from 'rxjs';
import type { ExpressResponse, FastifyReply, Reply } from './reply.js';
import { InScenario, Scenario } from './scenario.js';

const octets = (length: number) =>
  Buffer.from(Array.from({ length }, (_, index) => (index * 31) % 256));

export class Account {
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

export class Unserializable {
  id = 'unserializable';

  @Transform(() => {
    throw new Error('the serializer fails');
  })
  value = 1;
}

let calls = 0;
/** A different value in every exchange. */
const nextTag = () => `"tag-${(calls += 1)}"`;

/** Every way in which a handler can respond on both platforms, named by the path. */
@Controller()
@Idempotent()
export class ResponsesController {
  @Post('object')
  async object(@InScenario() scenario: Scenario) {
    return { id: await scenario.run(), nested: { list: [1, null, 'ü€😀'] } };
  }

  @Post('array')
  async array(@InScenario() scenario: Scenario) {
    return [await scenario.run(), { a: 1 }];
  }

  @Post('string')
  async string(@InScenario() scenario: Scenario) {
    return `execution ${await scenario.run()}: ü€😀`;
  }

  @Post('json-in-a-string')
  async jsonInAString(@InScenario() scenario: Scenario) {
    return `{"execution": ${await scenario.run()} }`;
  }

  @Post('empty-string')
  async emptyString(@InScenario() scenario: Scenario) {
    await scenario.run();
    return '';
  }

  @Post('text-with-its-type')
  @Header('Content-Type', 'text/plain')
  async textWithItsType(@InScenario() scenario: Scenario) {
    return `execution ${await scenario.run()}`;
  }

  @Post('number')
  async number(@InScenario() scenario: Scenario) {
    return scenario.run();
  }

  @Post('false')
  async falsehood(@InScenario() scenario: Scenario) {
    await scenario.run();
    return false;
  }

  @Post('null')
  async nothing(@InScenario() scenario: Scenario) {
    await scenario.run();
    return null;
  }

  @Post('undefined')
  async undefinedValue(@InScenario() scenario: Scenario) {
    await scenario.run();
    return undefined;
  }

  @Post('no-content')
  @HttpCode(204)
  async noContent(@InScenario() scenario: Scenario) {
    await scenario.run();
  }

  @Post('accepted')
  @HttpCode(202)
  async accepted(@InScenario() scenario: Scenario) {
    return { id: await scenario.run() };
  }

  @Post('buffer')
  async buffer(@InScenario() scenario: Scenario) {
    await scenario.run();
    return octets(512);
  }

  @Post('streamable-file')
  async streamableFile(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(octets(30_000), { type: 'image/png', disposition: 'inline' });
  }

  @Post('streamable-chunks')
  async streamableChunks(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    return new StreamableFile(
      Readable.from([Buffer.from(`${execution};`), octets(70_000), octets(3)]),
    );
  }

  @Post('generator')
  async *generator(@InScenario() scenario: Scenario) {
    yield `execution ${await scenario.run()}\n`;
    yield 'second line\n';
  }

  @Post('web-response')
  async webResponse(@InScenario() scenario: Scenario) {
    const headers = { 'Content-Type': 'text/csv', 'X-Own': 'kept' };
    return new Response(`execution,${await scenario.run()}`, { status: 202, headers });
  }

  @Post('observable')
  observable(@InScenario() scenario: Scenario) {
    return from(scenario.run()).pipe(map((id) => ({ id })));
  }

  @Post('observable-of-many')
  observableOfMany(@InScenario() scenario: Scenario) {
    return from(scenario.run()).pipe(mergeMap((id) => from([{ id: 0 }, { id }])));
  }

  @Post('promise-of-observable')
  async promiseOfObservable(@InScenario() scenario: Scenario) {
    const id = await scenario.run();
    return from([{ id: 0 }, { id }]);
  }

  @Post('hidden-member')
  async hiddenMember(@InScenario() scenario: Scenario) {
    return new Account(await scenario.run());
  }

  @Post('static-header')
  @Header('X-Static', 'of the route')
  @Header('Cache-Control', 'none')
  async staticHeader(@InScenario() scenario: Scenario) {
    return { id: await scenario.run() };
  }

  @Post('dynamic-header')
  @Header('X-Tag', nextTag)
  @Header('ETag', nextTag)
  async dynamicHeader(@InScenario() scenario: Scenario) {
    return { id: await scenario.run() };
  }

  @Post('redirect')
  @Redirect('/elsewhere', 303)
  async redirect(@InScenario() scenario: Scenario) {
    await scenario.run();
  }

  @Post('dynamic-redirect')
  @Redirect('/elsewhere', 302)
  async dynamicRedirect(@InScenario() scenario: Scenario) {
    return { url: `/executions/${await scenario.run()}`, statusCode: 307 };
  }

  @Post('passthrough')
  async passthrough(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply
      .status(207)
      .header('Link', ['</a>; rel="next"', '</b>; rel="prev"'])
      .header('Location', '/x');
    reply.header('ETag', '"1"');
    return { id: await scenario.run() };
  }

  @Post('native-send')
  async nativeSend(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    const id = await scenario.run();
    reply.status(202).header('X-Own', 'kept').header('Link', ['</a>', '</b>']).send({ id });
  }

  @Post('native-text')
  async nativeText(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    reply.header('Content-Type', 'text/plain').send(`execution ${await scenario.run()}`);
  }

  @Post('native-buffer')
  async nativeBuffer(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    await scenario.run();
    reply.header('Content-Type', 'application/octet-stream').send(octets(512));
  }

  @Post('native-nothing')
  async nativeNothing(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    await scenario.run();
    reply.status(204).send();
  }

  @Post('native-without-waiting')
  nativeWithoutWaiting(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    void scenario.run().then((id) => reply.send({ id }));
  }

  @Post('native-send-then-throw')
  async nativeSendThenThrow(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    reply.header('X-Own', 'kept').send({ id: await scenario.run() });
    throw new Error('after the answer');
  }

  @Post('thrown-409')
  async thrown(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('X-Reason', 'conflict');
    throw new HttpException({ conflict: await scenario.run() }, 409);
  }

  @Post('thrown-404-observable')
  thrownObservable(@InScenario() scenario: Scenario) {
    return defer(async () => {
      throw new HttpException(`nothing at ${await scenario.run()}`, 404);
    });
  }

  @Idempotent({ operation: 'the-methods-own-name' })
  @Post('decorated-twice')
  async decoratedTwice(@InScenario() scenario: Scenario) {
    return { id: await scenario.run() };
  }
}

/** What only Express' response can do. */
@Controller()
@Idempotent()
export class ExpressResponsesController {
  @Post('native-json')
  async json(@InScenario() scenario: Scenario, @Res() response: ExpressResponse) {
    response
      .status(201)
      .append('Link', '</a>')
      .append('Link', '</b>')
      .json({ id: await scenario.run() });
  }

  @Post('native-writes')
  async writes(@InScenario() scenario: Scenario, @Res() response: ExpressResponse) {
    response.setHeader('Content-Type', 'text/plain');
    response.write(`execution ${await scenario.run()};`);
    response.write(octets(300));
    response.write(Buffer.from('ü€😀'));
    response.write('bGF0aW4=', 'base64');
    response.end('the end');
  }

  @Post('native-write-head')
  async writeHead(@InScenario() scenario: Scenario, @Res() response: ExpressResponse) {
    await scenario.run();
    response.writeHead(202, { 'X-Own': 'kept', 'Content-Type': 'text/plain' });
    response.end('written by hand');
  }

  @Post('native-flush')
  async flush(@InScenario() scenario: Scenario, @Res() response: ExpressResponse) {
    response.setHeader('X-Own', 'kept');
    response.flushHeaders();
    response.end(`execution ${await scenario.run()}`);
  }

  @Post('native-pipeline')
  async pipeline(@InScenario() scenario: Scenario, @Res() response: ExpressResponse) {
    await scenario.run();
    await pipeline(Readable.from([octets(70_000), octets(70_000), octets(1)]), response);
  }

  @Post('native-finished')
  async finished(@InScenario() scenario: Scenario, @Res() response: ExpressResponse) {
    response.send({ id: await scenario.run() });
    await finished(response);
  }

  @Post('native-redirect')
  async redirect(@InScenario() scenario: Scenario, @Res() response: ExpressResponse) {
    response.redirect(303, `/executions/${await scenario.run()}`);
  }

  @Post('native-status')
  async status(@InScenario() scenario: Scenario, @Res() response: ExpressResponse) {
    await scenario.run();
    response.sendStatus(202);
  }

  @Post('native-end-callback')
  async endCallback(@InScenario() scenario: Scenario, @Res() response: ExpressResponse) {
    const id = await scenario.run();
    await new Promise<void>((resolve) => response.end(`execution ${id}`, resolve));
  }
}

/** What only Fastify's reply can do. */
@Controller()
@Idempotent()
export class FastifyResponsesController {
  @Post('native-return-send')
  async returnSend(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
    const id = await scenario.run();
    return reply.send({ id });
  }

  @Post('native-await-reply')
  async awaitReply(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
    void reply.send({ id: await scenario.run() });
    await reply;
  }

  @Post('native-finished')
  async finished(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
    void reply.send({ id: await scenario.run() });
    await finished(reply.raw);
  }

  @Post('native-stream')
  async stream(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
    await scenario.run();
    const chunks = Readable.from([octets(70_000), octets(70_000)]);
    await reply.header('Content-Type', 'image/png').send(chunks);
  }

  @Post('native-hijack')
  async hijack(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
    const id = await scenario.run();
    reply.hijack();
    reply.raw.writeHead(202, { 'Content-Type': 'text/plain', 'X-Own': 'kept' });
    reply.raw.write(`execution ${id};`);
    reply.raw.end('the end');
  }

  @Post('native-redirect')
  async redirect(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
    void reply.redirect(`/executions/${await scenario.run()}`, 303);
  }
}

/** Responses that something after the handler turns into an error. */
@Controller()
@Idempotent()
export class DivergingResponsesController {
  @Post('unserializable')
  async unserializable(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new Unserializable();
  }

  @Post('circular')
  async circular(@InScenario() scenario: Scenario) {
    const circle: Record<string, unknown> = { id: await scenario.run() };
    circle.self = circle;
    return circle;
  }

  @Post('bigint')
  async bigint(@InScenario() scenario: Scenario) {
    return { id: BigInt(await scenario.run()) };
  }
}
