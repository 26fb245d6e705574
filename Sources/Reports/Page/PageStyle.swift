/// The style sheet of a page. Texts have a contrast of at least 4.5 with what is behind them, in both schemes (WCAG 2.2, 1.4.3).
enum PageStyle {
  static let text = #"""
    :root {
      color-scheme: light dark;
      --page: #f7f7f5; --panel: #ffffff; --inset: #f1f1ee; --ink: #1d2125; --soft: #565d66; --line: #dcdcd7; --strong: #b9bab4;
      --accent: #1c5cab; --ok: #14683c; --ok-back: #e0f1e6; --warning: #7a4d00; --warning-back: #fbeecd; --bad: #a1201a; --bad-back: #fbe3e0;
      --plain-back: #e9eaec; --curve: #1c5cab; --present: #7f9db9; --gap: #c62f26; --mark: #b36b00; --end: #a1201a; --start: #14683c;
    }
    @media screen and (prefers-color-scheme: dark) {
      :root {
        --page: #14171a; --panel: #1b1f23; --inset: #22272c; --ink: #e4e7ea; --soft: #a3abb4; --line: #31373d; --strong: #4b535b;
        --accent: #8bb8f5; --ok: #7fd6a2; --ok-back: #173626; --warning: #efc267; --warning-back: #3d2f10; --bad: #f79a92; --bad-back: #451f1c;
        --plain-back: #2c3238; --curve: #8bb8f5; --present: #5a7da0; --gap: #f0685e; --mark: #e0a23c; --end: #f79a92; --start: #7fd6a2;
      }
    }
    * { box-sizing: border-box; }
    html { -webkit-text-size-adjust: 100%; }
    body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
    header, main, footer { max-width: 1280px; margin: 0 auto; padding: 0 24px; }
    header { padding-top: 28px; }
    footer { padding-top: 16px; padding-bottom: 40px; color: var(--soft); font-size: 12px; }
    h1 { margin: 0; font-size: 24px; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere; }
    h2 { margin: 0 0 10px; font-size: 15px; font-weight: 650; }
    h3 { margin: 0 0 6px; font-size: 13px; font-weight: 600; color: var(--soft); }
    p { margin: 0 0 6px; }
    a { color: var(--accent); }
    code, .digest, .toggle, .place { font-family: ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; font-size: 12px; }
    .digest { overflow-wrap: anywhere; }
    .skip { position: absolute; left: -999px; }
    .skip:focus { left: 8px; top: 8px; padding: 6px 10px; background: var(--panel); z-index: 3; }
    :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
    .lead { margin: 4px 0 0; color: var(--soft); }
    .notice { margin: 12px 0 0; padding: 8px 12px; border: 1px solid var(--line); border-left: 3px solid var(--warning); background: var(--panel); }
    .notice button { margin-left: 8px; }
    section { margin-top: 16px; padding: 16px 18px; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; }
    .columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 16px; margin-top: 16px; }
    .columns > * { margin-top: 0; min-width: 0; }
    .columns > div > section:first-child { margin-top: 0; }
    .figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); margin: 16px 0 0; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
    .figures div { padding: 10px 14px; box-shadow: 0 0 0 0.5px var(--line); }
    .figures dt { color: var(--soft); font-size: 12px; }
    .figures dd { margin: 0; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; }
    .figures dd.aside { font-size: 12px; font-weight: 400; color: var(--soft); }
    .bar { display: block; width: 100%; height: 8px; margin: 12px 0 4px; border-radius: 4px; overflow: hidden; }
    .bar .written { fill: #3d9a67; } .bar .warned { fill: #d9a02b; } .bar .rejected { fill: #8a8f96; } .bar .failed { fill: #c62f26; }
    table { width: 100%; border-collapse: collapse; font-size: 13px; }
    th, td { padding: 5px 10px 5px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); font-weight: 400; }
    thead th { color: var(--soft); font-size: 12px; border-bottom: 1px solid var(--strong); vertical-align: bottom; white-space: nowrap; }
    tr:last-child > th, tr:last-child > td { border-bottom: 0; }
    .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
    .scroll { overflow-x: auto; container-type: inline-size; }
    dl.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 14px; align-content: start; margin: 0; font-size: 12.5px; }
    dl.facts dt { color: var(--soft); }
    dl.facts dd { margin: 0; overflow-wrap: anywhere; }
    .detail > dl.facts { grid-template-columns: repeat(2, max-content minmax(0, 1fr)); }
    ol.steps { margin: 0; padding-left: 20px; }
    ol.steps li { margin-bottom: 2px; overflow-wrap: anywhere; }
    .badge { display: inline-block; padding: 0 7px; border-radius: 9px; background: var(--plain-back); color: var(--ink); font-size: 12px; line-height: 18px; white-space: nowrap; }
    .badge.ok, .badge.written { background: var(--ok-back); color: var(--ok); }
    .badge.warning { background: var(--warning-back); color: var(--warning); }
    .badge.error, .badge.failed { background: var(--bad-back); color: var(--bad); }
    button, select, input { font: inherit; font-size: 13px; color: var(--ink); background: var(--panel); border: 1px solid var(--strong); border-radius: 4px; padding: 3px 8px; }
    button { cursor: pointer; }
    button:disabled { color: var(--soft); border-color: var(--line); cursor: default; }
    button[aria-pressed="true"] { background: var(--plain-back); }
    form { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: end; margin-bottom: 10px; }
    form label { display: grid; gap: 2px; color: var(--soft); font-size: 12px; }
    form .text { flex: 1 1 200px; }
    form select { max-width: 180px; }
    .tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 8px 0; }
    .tools p { margin: 0; }
    .tools .space { flex: 1; }
    #table > thead > tr > * { position: sticky; top: 0; z-index: 1; background: var(--panel); padding-top: 6px; }
    #table > thead button { border: 0; padding: 0; background: none; color: inherit; font-size: 12px; text-align: inherit; }
    #table > thead button::after { content: " \2195"; color: var(--soft); }
    #table th[aria-sort="ascending"] button::after { content: " \2191"; color: var(--accent); }
    #table th[aria-sort="descending"] button::after { content: " \2193"; color: var(--accent); }
    #table th[aria-sort] button { color: var(--ink); font-weight: 600; }
    #table th, #table td { vertical-align: middle; }
    #table .picture { width: 74px; padding: 4px 10px 4px 0; }
    .thumbnail { display: block; overflow: hidden; border-radius: 2px; background: var(--inset); }
    .thumbnail img { display: block; max-width: none; }
    .toggle { border: 0; padding: 2px 0; background: none; color: var(--accent); text-align: left; overflow-wrap: anywhere; }
    .toggle::before { content: "\25B8"; display: inline-block; width: 1.1em; color: var(--soft); }
    .toggle[aria-expanded="true"]::before { content: "\25BE"; }
    .toggle:hover { text-decoration: underline; }
    #table > tbody > tr.take > th { min-width: 170px; }
    #table > tbody > tr.take > .codes { min-width: 180px; max-width: 300px; }
    #table > tbody > tr.take > .wide { white-space: nowrap; }
    #table > tbody > tr.take > .verified { min-width: 104px; max-width: 150px; white-space: normal; }
    .verified .badge { white-space: normal; line-height: 16px; padding: 1px 8px; }
    tr.details > td { padding: 0 0 14px; }
    #table .detail th, #table .detail td { vertical-align: top; }
    .detail { display: grid; gap: 14px; padding: 14px 16px; background: var(--inset); border: 1px solid var(--line); border-radius: 5px;
      position: sticky; left: 0; width: 100cqi; grid-template-columns: minmax(0, 1fr); }
    .detail > * { margin: 0; min-width: 0; }
    .detail ul:not(.findings) { margin: 0; padding-left: 18px; }
    ul.findings { list-style: none; margin: 0 0 12px; padding: 0; display: grid; gap: 8px; }
    ul.findings p { margin: 0; }
    .explain { margin: 1px 0 0; color: var(--soft); max-width: 900px; }
    figure { margin: 0; min-width: 0; }
    figcaption { margin-bottom: 4px; font-size: 12px; color: var(--soft); overflow-wrap: anywhere; }
    .strip img { display: block; max-width: 100%; height: auto; border-radius: 3px; }
    @media screen and (max-width: 720px) { .strip img { max-width: none; width: auto; height: 100px; } #table > tbody > tr.take > th { min-width: 120px; } }
    .legend { display: inline-flex; align-items: center; gap: 6px; margin-left: 12px; white-space: nowrap; }
    .hole { display: inline-block; width: 12px; height: 9px; border-radius: 2px; background: #e68c1a; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
    .ramp { display: inline-block; width: 90px; height: 9px; border-radius: 2px; background: linear-gradient(to right, #00ffff, #ff00ff); print-color-adjust: exact; -webkit-print-color-adjust: exact; }
    .plots { display: flex; flex-wrap: wrap; gap: 14px 28px; align-items: flex-start; }
    .plots .drawing { padding: 6px; box-sizing: content-box; max-width: calc(100% - 14px); background: var(--panel); border: 1px solid var(--line); border-radius: 4px; --inset: var(--panel); }
    .curves { display: flex; flex-wrap: wrap; gap: 14px 28px; }
    .verification { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(340px, 100%), 1fr)); gap: 6px 24px; padding: 10px 14px; background: var(--panel); border: 1px solid var(--line); border-radius: 5px; font-size: 12.5px; }
    .verification h3 { grid-column: 1 / -1; margin: 0; }
    .streams td, .streams th { font-size: 12.5px; }
    .streams tbody th { font-family: ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; font-size: 12px; }
    .note { color: var(--soft); }
    .drawing { display: block; max-width: 100%; height: auto; overflow: visible; }
    .drawing path { fill: none; stroke-linecap: round; stroke-linejoin: round; }
    .drawing text { fill: var(--soft); font-size: 10.5px; stroke: var(--inset); stroke-width: 3px; paint-order: stroke; }
    .drawing .axis { stroke: var(--soft); stroke-width: 1; stroke-linecap: butt; }
    .drawing .grid { stroke: var(--line); stroke-width: 1; }
    .drawing .curve { stroke: var(--curve); stroke-width: 1.4; }
    .drawing .bridge { stroke: var(--curve); stroke-width: 1; stroke-dasharray: 1.5 3; opacity: 0.8; }
    .timeline .drawing { min-width: 760px; }
    .drawing .zero { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 2; }
    .drawing .bar { fill: var(--present); } .drawing .present { fill: var(--present); } .drawing .gap { fill: var(--gap); }
    .drawing .mark { fill: var(--mark); }
    .drawing .start { fill: var(--start); } .drawing .end { fill: var(--panel); stroke: var(--end); stroke-width: 2; }
    @media screen and (max-width: 1100px) { #table .wide { display: none; } }
    @media screen and (max-width: 720px) {
      header, main, footer { padding-left: 12px; padding-right: 12px; }
      section { padding: 12px; }
      #table > tbody > tr > .codes, #table .picture, #table > thead > tr > .codes { display: none; }
      .streams { min-width: 820px; }
      .explained { min-width: 640px; }
      .detail > dl.facts { grid-template-columns: max-content minmax(0, 1fr); }
      .detail { padding: 10px; }
    }
    @media screen and (max-width: 480px) { #table .size { display: none; } }
    @media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
    @media print {
      @page { size: A4 landscape; margin: 12mm; }
      :root { color-scheme: light; --page: #fff; --panel: #fff; --inset: #fff; }
      body { font-size: 11px; }
      table, .streams td, .streams th, thead th, .badge, code, .toggle, dl.facts, .verification { font-size: 10px; }
      th, td { padding: 3px 8px 3px 0; }
      #table > tbody > tr.take > th, #table > tbody > tr.take > .codes { min-width: 0; }
      header, main, footer { max-width: none; padding: 0; }
      header { padding-top: 0; }
      form, .tools, .skip, #table > thead button::after, .notice button { display: none; }
      section { border: 0; padding: 8px 0; break-inside: auto; }
      #table > thead > tr > * { position: static; }
      tr, figure, .verification, li { break-inside: avoid; }
      tr.details { break-inside: auto; }
      .badge, .bar, .thumbnail, .drawing path { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
      a { color: inherit; text-decoration: none; }
      .scroll { overflow: visible; container-type: normal; }
      .detail { position: static; width: auto; }
    }
    """#
}
