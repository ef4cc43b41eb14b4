import { Catch, Injectable, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { visitOf, type ConsoleRequest } from './console-request.js';
import type { Html } from './html.js';
import { message } from './layout.js';
import { Refusal } from './refusal.js';

const POLICY =
  "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  // With "no-referrer", browsers would send "Origin: null" with the console's own forms.
  'Referrer-Policy': 'same-origin',
  'Cache-Control': 'no-store',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
} as const;

/** Answers through the application's adapter: no interceptor wraps a page. */
@Injectable()
@Catch(Refusal)
export class ConsoleReply implements ExceptionFilter<Refusal> {
  constructor(private readonly host: HttpAdapterHost) {}

  /** @param everySeconds - how often a browser loads it again by itself. */
  page(response: unknown, status: number, page: Html, everySeconds?: number): void {
    if (everySeconds !== undefined) {
      this.host.httpAdapter.setHeader(response, 'Refresh', String(everySeconds));
    }
    this.send(response, status, 'text/html; charset=utf-8', page.text);
  }

  style(response: unknown, text: string): void {
    this.send(response, 200, 'text/css; charset=utf-8', text);
  }

  catch({ status, title, message: text }: Refusal, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const { root, operator } = visitOf(http.getRequest<ConsoleRequest>());
    const frame = { root, actor: operator?.actor };
    this.page(http.getResponse(), status, message(frame, title, text));
  }

  private send(response: unknown, status: number, type: string, text: string): void {
    const { httpAdapter } = this.host;
    for (const [name, value] of Object.entries(HEADERS))
      httpAdapter.setHeader(response, name, value);
    httpAdapter.setHeader(response, 'Content-Type', type);
    httpAdapter.reply(response, text, status);
  }
}
