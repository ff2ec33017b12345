# Draws figure-14-bf16.svg from figure-14-bf16.dat, in this folder: gnuplot figure-14-bf16.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key inside top center horizontal maxcols 3 samplen 1.5
set terminal svg size 1200,840 noenhanced background 'white'
set output 'figure-14-bf16.svg'
set multiplot layout 2,2 title 'Figure 14: controls of the batch size by objective, bf16'
set title 'throughput'
set xlabel 'objective, ms'
set ylabel 'answers/s'
unset logscale y
set offsets graph 0, 0, 0.35, 0
set logscale x 2
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-14-bf16.dat' index 0 using 1:2 with linespoints lc rgb '#4477AA' title 'slab', \
       'figure-14-bf16.dat' index 0 using 1:3 with linespoints lc rgb '#EE6677' title 'aimd', \
       'figure-14-bf16.dat' index 0 using 1:4 with linespoints lc rgb '#228833' title 'fixed'
set title 'latency'
set xlabel 'objective, ms'
set ylabel 'p99 ms'
unset logscale y
set offsets graph 0, 0, 0.35, 0
set logscale x 2
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-14-bf16.dat' index 1 using 1:2 with linespoints lc rgb '#4477AA' title 'slab', \
       'figure-14-bf16.dat' index 1 using 1:3 with linespoints lc rgb '#EE6677' title 'aimd', \
       'figure-14-bf16.dat' index 1 using 1:4 with linespoints lc rgb '#228833' title 'fixed'
set title 'later than the objective'
set xlabel 'objective, ms'
set ylabel '% late'
unset logscale y
set offsets graph 0, 0, 0.35, 0
set logscale x 2
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-14-bf16.dat' index 2 using 1:2 with linespoints lc rgb '#4477AA' title 'slab', \
       'figure-14-bf16.dat' index 2 using 1:3 with linespoints lc rgb '#EE6677' title 'aimd', \
       'figure-14-bf16.dat' index 2 using 1:4 with linespoints lc rgb '#228833' title 'fixed'
unset multiplot
unset output
