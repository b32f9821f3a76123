// A chart: lines over time in one SVG, a cursor shared by all charts of a page, and the same as a table.
import * as en from '../en/parts/chart.ts';
import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { count } from '../lib/time.ts';
import { Button, Card } from './ui.tsx';

export interface Series {
  name: string;
  values: (number | null)[];
}
export const cursor = signal<number | undefined>(undefined);
const [W, H, L, B] = [420, 120, 44, 18];

const short = (value: number): string =>
  value >= 1e9
    ? `${(value / 1e9).toFixed(1)} G`
    : value >= 1e6
      ? `${(value / 1e6).toFixed(1)} M`
      : value >= 10_000
        ? `${(value / 1e3).toFixed(0)} k`
        : value >= 100 || Number.isInteger(value)
          ? count(Math.round(value))
          : value.toPrecision(2);
function niceMax(value: number): number {
  if (value <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 2.5, 5, 10].find((step) => step * unit >= value) ?? 10) * unit;
}

export function Chart({
  title,
  unit = '',
  series,
  times,
  query,
}: {
  title: string;
  unit?: string;
  series: Series[];
  times: number[];
  query: string;
}) {
  const [isTable, setTable] = useState(false);
  const max = niceMax(
    Math.max(0, ...series.flatMap((one) => one.values.map((value) => value ?? 0))),
  );
  const n = times.length;
  const x = (i: number): number => L + ((W - L) * i) / Math.max(1, n - 1);
  const y = (value: number): number => 8 + (H - B - 8) * (1 - value / max);
  const path = (values: (number | null)[]): string =>
    values
      .map((value, i) =>
        value === null
          ? ''
          : `${i > 0 && values[i - 1] !== null ? 'L' : 'M'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`,
      )
      .join('');
  const at = cursor.value !== undefined && cursor.value < n ? cursor.value : n - 1;
  const seconds = n > 1 ? ((times[n - 1] ?? 0) - (times[0] ?? 0)) / 1000 : 0;
  const span =
    seconds >= 3000
      ? en.min(Math.round(seconds / 60))
      : seconds >= 60
        ? en.min(Math.round(seconds / 60))
        : `−${Math.round(seconds)} s`;
  const shown = (one: Series): string => {
    const value = one.values[at];
    return value === null || value === undefined ? '–' : `${short(value)}${unit && ` ${unit}`}`;
  };
  return (
    <Card
      class="chart"
      title={title}
      actions={
        <>
          <b>{series[0] ? shown(series[0]) : ''}</b>
          <Button
            size="sm"
            kind="ghost"
            icon={isTable ? 'chart' : 'list'}
            label={isTable ? en.asAChart(title) : en.asATable(title)}
            onClick={() => setTable(!isTable)}
          />
        </>
      }
    >
      {isTable ? (
        <div class="scroll-x chart-table" tabIndex={0} role="region" aria-label={title}>
          <table class="grid">
            <thead>
              <tr>
                <th>{en.time}</th>
                {series.map((one) => (
                  <th class="right">{one.name}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {times
                .map((time, i) => ({ time, i }))
                .slice(-30)
                .reverse()
                .map(({ time, i }) => (
                  <tr key={time}>
                    <td class="num">{new Date(time).toLocaleTimeString('en-GB')}</td>
                    {series.map((one) => (
                      <td class="right num">
                        {one.values[i] === null || one.values[i] === undefined
                          ? '–'
                          : short(one.values[i] as number)}
                      </td>
                    ))}
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      ) : (
        <svg
          class="plot"
          viewBox={`0 0 ${W} ${H}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${title}: ${series.map((one) => `${one.name} ${shown(one)}`).join(', ')}`}
          onPointerMove={(event) => {
            const box = event.currentTarget.getBoundingClientRect();
            cursor.value = Math.max(
              0,
              Math.min(
                n - 1,
                Math.round(
                  ((((event.clientX - box.left) / box.width) * W - L) / (W - L)) * (n - 1),
                ),
              ),
            );
          }}
          onPointerLeave={() => {
            cursor.value = undefined;
          }}
        >
          {[0, 0.5, 1].map((part) => (
            <>
              <line
                class="gridline"
                x1={L}
                x2={W}
                y1={y(max * part)}
                y2={y(max * part)}
                vector-effect="non-scaling-stroke"
              />
              <text class="ax" x={L - 6} y={y(max * part) + 3} text-anchor="end">
                {short(max * part)}
              </text>
            </>
          ))}
          {series.map((one, i) => (
            <path
              key={one.name}
              class={`s${(i % 4) + 1}`}
              d={path(one.values)}
              fill="none"
              stroke-width="1.75"
              vector-effect="non-scaling-stroke"
              stroke-linejoin="round"
            />
          ))}
          {cursor.value !== undefined && n > 1 && (
            <line
              class="cursor"
              x1={x(at)}
              x2={x(at)}
              y1="8"
              y2={H - B}
              vector-effect="non-scaling-stroke"
            />
          )}
          <text class="ax" x={L} y={H - 3}>
            {n > 1 ? span : ''}
          </text>
          <text class="ax" x={W} y={H - 3} text-anchor="end">
            {en.now}
          </text>
        </svg>
      )}
      <div class="legend">
        {series.map((one, i) => (
          <span key={one.name}>
            <i class={`b${(i % 4) + 1}`} />
            {one.name} {series.length > 1 && shown(one)}
          </span>
        ))}
      </div>
      <details class="promql">
        <summary>{en.promql}</summary>
        <code class="mono">{query}</code>
      </details>
    </Card>
  );
}
