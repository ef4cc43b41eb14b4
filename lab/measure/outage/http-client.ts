import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';

export interface MeasuredResponse {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly idempotencyStatus: string | undefined;
  /** From before the request was sent until its last byte was read. */
  readonly tookMs: number;
}

/** Sends requests, each with a key of its own, over connections that stay open. */
export class HttpClient {
  private readonly agent = new Agent({ keepAlive: true });

  constructor(private readonly port: number) {}

  post(path: string): Promise<MeasuredResponse> {
    const headers = { 'Idempotency-Key': `"${randomUUID()}"` };
    const sentAt = performance.now();
    return new Promise((resolve, reject) => {
      const options = { port: this.port, host: '127.0.0.1', path, headers, agent: this.agent };
      const sent = request({ ...options, method: 'POST' }, (response) => {
        response.resume();
        response.once('error', reject);
        response.once('end', () => {
          const idempotencyStatus = response.headers['idempotency-status'];
          resolve({
            status: response.statusCode ?? 0,
            retryAfter: response.headers['retry-after'],
            idempotencyStatus: Array.isArray(idempotencyStatus)
              ? idempotencyStatus.join()
              : idempotencyStatus,
            tookMs: performance.now() - sentAt,
          });
        });
      });
      sent.once('error', reject);
      sent.end();
    });
  }

  /** So many requests, so many of them under way at a time. */
  async postMany(path: string, count: number, atOnce: number): Promise<MeasuredResponse[]> {
    const responses: MeasuredResponse[] = [];
    let left = count;
    const sender = async () => {
      while (left-- > 0) responses.push(await this.post(path));
    };
    await Promise.all(Array.from({ length: atOnce }, sender));
    return responses;
  }

  close(): void {
    this.agent.destroy();
  }
}
