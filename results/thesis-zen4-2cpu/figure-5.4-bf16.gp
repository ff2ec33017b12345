# Draws figure-5.4-bf16.svg and figure-5.4-bf16.png from figure-5.4-bf16.dat, in this folder: gnuplot figure-5.4-bf16.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key outside bottom center horizontal
do for [format in 'svg png'] {
  if (format eq 'svg') { set terminal svg size 1200,460 noenhanced background 'white' }
  if (format eq 'png') { set terminal pngcairo size 1200,460 noenhanced }
  set output 'figure-5.4-bf16.'.format
  set multiplot layout 1,2 title 'Figure 5.4: throughput of ALBERT-large, bf16'
  set title '4 tenants'
  set xlabel 'requests'
  set ylabel 'requests/s'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'figure-5.4-bf16.dat' index 0 using 1:2 with linespoints title 'seq', \
       'figure-5.4-bf16.dat' index 0 using 1:3 with linespoints title 'floor', \
       'figure-5.4-bf16.dat' index 0 using 1:4 with linespoints title 'multi-stream', \
       'figure-5.4-bf16.dat' index 0 using 1:5 with linespoints title 'mps', \
       'figure-5.4-bf16.dat' index 0 using 1:6 with linespoints title 'itif'
  set title '5 tenants'
  set xlabel 'requests'
  set ylabel 'requests/s'
  set logscale x 2
  set yrange [0:*]
  set xtics autofreq
  plot 'figure-5.4-bf16.dat' index 1 using 1:2 with linespoints title 'seq', \
       'figure-5.4-bf16.dat' index 1 using 1:3 with linespoints title 'floor', \
       'figure-5.4-bf16.dat' index 1 using 1:4 with linespoints title 'multi-stream', \
       'figure-5.4-bf16.dat' index 1 using 1:5 with linespoints title 'mps', \
       'figure-5.4-bf16.dat' index 1 using 1:6 with linespoints title 'itif'
  unset multiplot
  unset output
}
