// A QR code as one path of SVG; the library is loaded when one is shown.
import * as en from '../en/parts/qr.ts';
import { useEffect, useState } from 'preact/hooks';

export function Qr({ text }: { text: string }) {
  const [shape, setShape] = useState<{ size: number; path: string } | undefined>(undefined);
  useEffect(() => {
    void import('uqr').then(({ encode }) => {
      try {
        const { data, size } = encode(text, { border: 2 });
        setShape({
          size,
          path: data
            .flatMap((row, y) => row.map((on, x) => (on ? `M${x} ${y}h1v1h-1z` : '')))
            .join(''),
        });
      } catch {
        /* Too long for a code: the link is there. */
      }
    });
  }, [text]);
  return shape ? (
    <svg
      class="qr"
      viewBox={`0 0 ${shape.size} ${shape.size}`}
      role="img"
      aria-label={en.qrCodeOfTheLink}
      shape-rendering="crispEdges"
    >
      <rect width={shape.size} height={shape.size} fill="#fff" />
      <path d={shape.path} fill="#000" />
    </svg>
  ) : null;
}
