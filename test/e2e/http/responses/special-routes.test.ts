import {
  Catch,
  Controller,
  Header,
  HttpException,
  Post,
  Redirect,
  Render,
  Res,
  type ArgumentsHost,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { RouteSchema, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms, type Platform } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import type { Reply } from '../../../support/http/reply.js';
import { routesOf } from '../../../support/http/routes-of.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';

const declined = (execution: number) =>
  new HttpException({ statusCode: 402, url: '/nowhere', execution }, 402);

@Controller()
class Pages {
  @Post('page')
  @Render('page.text')
  @Idempotent()
  page(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('page/with-headers')
  @Render('page.text')
  @Header('X-Own', 'kept')
  @Idempotent()
  withHeaders(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.status(202).header('Content-Language', 'de');
    return scenario.response();
  }

  @Post('page/injected')
  @Render('page.text')
  @Idempotent()
  injected(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    reply.header('Content-Language', 'de');
    return scenario.response();
  }

  @Post('page/waiting')
  @Render('page.text')
  @Idempotent({ duplicates: 'wait' })
  waiting(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('page/declined')
  @Render('page.text')
  @Idempotent()
  async declined(@InScenario() scenario: Scenario) {
    throw declined(await scenario.run());
  }

  @Post('page/broken')
  @Render('page.text')
  @Idempotent()
  async broken(@InScenario() scenario: Scenario) {
    return { another: await scenario.run() };
  }
}

@Controller()
class Redirects {
  @Post('elsewhere')
  @Redirect('/there', 303)
  @Idempotent()
  async elsewhere(@InScenario() scenario: Scenario) {
    await scenario.run();
  }

  @Post('elsewhere/by-value')
  @Redirect('/there', 303)
  @Idempotent()
  async byValue(@InScenario() scenario: Scenario) {
    return { url: `/things/${await scenario.run()}`, statusCode: 307 };
  }

  @Post('elsewhere/injected')
  @Redirect('/there', 303)
  @Idempotent()
  async injected(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    reply.header('X-Own', `kept ${await scenario.run()}`);
  }

  @Post('elsewhere/declined')
  @Redirect('/there', 303)
  @Idempotent()
  async declined(@InScenario() scenario: Scenario) {
    throw declined(await scenario.run());
  }
}

const OF_THING = { type: 'object', required: ['id'], properties: { id: { type: 'number' } } };

@Controller()
class Serialized {
  @Post('thing')
  @RouteSchema({ response: { 201: OF_THING } })
  @Idempotent()
  async thing(@InScenario() scenario: Scenario) {
    return { id: await scenario.run() };
  }

  @Post('thing/declined')
  @RouteSchema({ response: { 201: OF_THING } })
  @Idempotent()
  async declined(@InScenario() scenario: Scenario) {
    throw declined(await scenario.run());
  }
}

/** Renders a page that shows the execution. */
function render(view: string, data: { execution?: number } | undefined): string {
  rendered.push(view);
  if (data?.execution === undefined) throw new ReferenceError('execution is not defined');
  return `<p>execution ${String(data.execution)}</p>`;
}

const rendered: string[] = [];
const caught: unknown[] = [];

@Catch()
class EverythingFilter extends BaseExceptionFilter {
  override catch(error: unknown, host: ArgumentsHost): void {
    caught.push(error);
    super.catch(error, host);
  }
}

type Done = (error: unknown, html?: string) => void;

/** Registers an Express engine, and for Fastify a `reply.view()` as @fastify/view does. */
function setViews(app: INestApplication, platform: Platform, folder: string): void {
  if (platform === 'express') {
    const express = app as NestExpressApplication;
    express.setBaseViewsDir(folder);
    express.engine('text', (path: string, data: object, done: Done) => {
      try {
        done(null, render(path, data));
      } catch (error) {
        done(error);
      }
    });
    return;
  }
  const fastify = (app as NestFastifyApplication).getHttpAdapter().getInstance();
  fastify.decorateReply(
    'view' as never,
    async function (this: Reply, view: string, data: object) {
      try {
        const html = await Promise.resolve(render(view, data));
        this.header('Content-Type', 'text/html; charset=utf-8').send(html);
      } catch (error) {
        this.send(error);
      }
      return this;
    } as never,
  );
}

describe.each(platforms)('pages, redirects and serialized values on %s', (platform) => {
  let app: TestApp;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'views-'));
    await writeFile(join(folder, 'page.text'), 'Express requires this file.');
    const controllers: Type[] = [Pages, Redirects, Serialized];
    app = await startApp({
      platform,
      store: memoryStore(),
      controllers,
      configure: (nest) => {
        setViews(nest, platform, folder);
        nest.useGlobalFilters(new EverythingFilter(nest.getHttpAdapter()));
      },
    });
  });

  afterEach(() => {
    rendered.length = 0;
    caught.length = 0;
  });

  afterAll(async () => {
    await app.close();
    await rm(folder, { recursive: true });
  });

  const routes = [Pages, Redirects, Serialized].flatMap(routesOf);

  it.each(routes)('neither render nor throw in a replay of %s', async (path) => {
    const scenario = app.scenario();
    const first = await scenario.post(path);
    const before = { rendered: rendered.length, caught: caught.length };
    expectReplay(await scenario.post(path), first);
    expectReplay(await scenario.post(path), first);
    expect({ rendered: rendered.length, caught: caught.length }).toEqual(before);
    expect(scenario.executions).toBe(1);
  });

  it('replay a page with its status and headers', async () => {
    const scenario = app.scenario();
    await scenario.post('/page/with-headers');
    const replay = await scenario.post('/page/with-headers');
    expect([replay.status, replay.text]).toEqual([202, '<p>execution 1</p>']);
    expect(replay.header('content-type')).toContain('text/html');
    expect([replay.header('x-own'), replay.header('content-language')]).toEqual(['kept', 'de']);
    expect(rendered).toHaveLength(1);
  });

  it('replay the failure of a page that could not be rendered', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/page/broken');
    expect([first.status, caught.length]).toEqual([500, 1]);
    const replay = await scenario.post('/page/broken');
    expect([replay.status, replay.replayed, replay.text]).toEqual([500, true, first.text]);
    expect(scenario.executions).toBe(1);
  });

  it('render a page once for the first request and a waiting duplicate', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const first = scenario.start('POST', '/page/waiting');
    await scenario.started.reached(1);
    const second = scenario.start('POST', '/page/waiting');
    await scenario.arrived.reached(2);
    scenario.gate.open();
    expectReplay(await second.response, await first.response);
    expect([rendered.length, caught.length, scenario.executions]).toEqual([1, 0, 1]);
  });

  it('render nothing for a key that was reused with another content', async () => {
    const scenario = app.scenario();
    await scenario.post('/page', { json: { amount: 1 } });
    expectProblem(await scenario.post('/page', { json: { amount: 2 } }), 'key-reused');
    expect(rendered).toHaveLength(1);
  });
});
